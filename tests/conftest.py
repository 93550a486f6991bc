"""What all tests share: a busy machine is no reason to fail."""

from hypothesis import settings

settings.register_profile("haiku", deadline=None)
settings.load_profile("haiku")

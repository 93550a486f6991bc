"""What all tests share: a busy machine is no reason to fail, and neither is a new seed.

Properties are tried with the same examples each time. `HYPOTHESIS_PROFILE=random make test` looks
for others; what it finds becomes a test of its own.
"""

import os

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

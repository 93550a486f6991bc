"""Reads the tide gauge on the north jetty and smooths its readings."""

from collections import deque
from statistics import median

#: Metres between the sensor and chart datum, levelled in April 2024.
SENSOR_HEIGHT = 6.417


class TideGauge:
    """Turns distances measured downwards into heights of the sea above chart datum."""

    def __init__(self, window: int = 31) -> None:
        self._readings: deque[float] = deque(maxlen=window)

    def add(self, distance: float) -> None:
        """Take a distance in metres; spray makes single readings useless."""
        if 0.5 < distance < SENSOR_HEIGHT + 1.0:
            self._readings.append(distance)

    def height(self) -> float:
        """Height of the sea in metres: the median shrugs off spray and passing gulls."""
        return SENSOR_HEIGHT - median(self._readings)

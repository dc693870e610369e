"""Goals, for users; `superteach.coordinator.goals` has them."""

from superteach.coordinator.goals import *  # noqa: F403

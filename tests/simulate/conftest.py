"""What the tests of the checker share."""

from __future__ import annotations

import pytest

from tests.simulate.story import Story


@pytest.fixture
def story() -> Story:
    """Three events of one key, in two ticks; the first was handled."""
    story = Story()
    story.insert(1, 2)
    story.insert(3, tick=2)
    story.handle(1)
    return story

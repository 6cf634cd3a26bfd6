"""Take the picture of a survey for ``docs/survey.md``: ``python screenshots/survey.py SURVEY``.

The survey is that of the demo model's own training, as the page describes it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engine.surveys.survey_folder import SurveyFolder
from engine.values.options import limit_threads
from screenshots.take import picture
from tests.tui.snapshots import Shot, painted_lines
from tui.app.survey_explorer import SurveyExplorer

SHOT = Shot("survey-160x50", (160, 50), ("right_curly_bracket", "right_square_bracket", "right_square_bracket"))


async def main() -> None:
    """Show the survey, press the keys, and draw the screen."""
    limit_threads(None)
    os.environ |= {"TERM": "xterm-256color", "COLORTERM": SHOT.colours}
    app = SurveyExplorer(SurveyFolder(Path(sys.argv[1])))
    app.theme = SHOT.theme
    async with app.run_test(size=SHOT.size) as pilot:
        while not app.main.labels:
            await pilot.pause(0.05)
        await pilot.press(*SHOT.keys)
        await pilot.pause(0.5)
        lines = painted_lines(app, SHOT.colours)
    drawn = picture(SHOT, lines, "demo-survey")
    (Path(__file__).resolve().parent / f"{SHOT.name}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())

"""Make pictures, transcripts and outputs of the docs anew: what a command printed stands on the page as it printed it.

From the root of the repository: python docs/figures.py [story] [demo] [transcripts] [outputs] [gallery]; all without a name.
The last example of the gallery needs a data file (docs/datasets.md); without it its part of the page stays as it is.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent
WIDTH = 116
"""Characters of a line of output; longer ones are broken."""
TRANSCRIPTS = ("command-line.md",)
"""Pages whose blocks of `$ superteach …` are what these commands print."""
OUTPUTS = ("add-a-loss.md", "goals.md")
"""Pages on which an indented block right after a Python block is what that block prints."""
_COMMAND = re.compile(r"^    \$ (superteach (?:[^\n]*\\\n)*[^\n]*)\n((?:    (?!\$ )[^\n]*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```python\n((?:(?!```)[^\n]*\n)*)```\n\n((?:    [^\n]*\n)+)", re.MULTILINE)
_EXAMPLE = re.compile(r"^    \$ python (examples/(\w+)\.py)\n((?:    [^\n]*\n)*)", re.MULTILINE)


def indented(text: str) -> str:
    """Write output as a block of a page."""
    lines = []
    for line in text.rstrip().splitlines():
        table = "  " in line.strip()  # tables keep their spaces
        lines += [line.rstrip()] if table else textwrap.wrap(line, WIDTH) or [""]
    return "".join(f"    {line}\n" if line else "\n" for line in lines)


@contextmanager
def clinics() -> Iterator[None]:
    """Enter a folder with the three files that the page on the command line speaks of."""
    from superteach.datasets import make_classification_pool

    X, y, owner = make_classification_pool(1200, 3, 3, 0)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for number, name in enumerate(("north", "south", "west")):
            own = owner == number
            table = np.column_stack([X[own], y[own]])
            np.savetxt(
                f"{name}.csv",
                table,
                fmt=["%.17g"] * 3 + ["%d"],
                delimiter=",",
                header="age,dose,marker,ill",
                comments="",
            )
        Path("goal.json").write_text('{"coef": [1.0, -1.0, 0.5], "intercept": 0.2}')
        yield


def said(command: str) -> str:
    """Run a command as a person would, in a pipe; what it printed."""
    words = command.replace("\\\n", " ").split()
    found = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    return found.stdout + found.stderr


def transcript(text: str) -> str:
    """Write what commands print under them."""
    return _COMMAND.sub(lambda found: f"    $ {found[1]}\n{indented(said(found[1]))}", text)


def output(text: str) -> str:
    """Write what Python blocks print after them."""

    def ran(found: re.Match[str]) -> str:
        told = io.StringIO()
        with redirect_stdout(told):
            exec(compile(found[1], "docs", "exec"), {"__name__": "__main__"})
        return f"```python\n{found[1]}```\n\n{indented(told.getvalue())}"

    return _BLOCK.sub(ran, text)


def example(found: re.Match[str]) -> str:
    """Draw an example of the gallery, and write what it prints."""
    ran = subprocess.run(
        [sys.executable, str(DOCS.parent / found[1]), str(DOCS / "images" / "gallery")],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        sys.stderr.write(f"{found[1]} did not run: {ran.stderr.strip().splitlines()[-1]}\n")
        return found[0]
    return f"    $ python {found[1]}\n{indented(ran.stdout)}"


def story() -> None:
    """Draw the picture of the first screen: coefficients and agreement before and after a lesson."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from superteach import SuperTeacher
    from superteach.report.plots import COLOURS, save

    patients = load_diabetes(scaled=False)
    X, y = StandardScaler().fit_transform(patients.data), patients.target > 140
    names = ["age", "sex", "body mass", "blood pressure", *(f"serum {number}" for number in range(1, 7))]
    everything, goal = LogisticRegression().fit(X, y), LogisticRegression().fit(X, y)
    goal.coef_[0, 1] = 0.0
    teacher = SuperTeacher(LogisticRegression(), goal, budget=0.2).fit(X, y, groups=np.arange(len(y)) % 3)
    lesson = teacher.lesson_
    wanted = goal.predict(X)
    agree = {
        name: float(np.mean(model.predict(X) == wanted)) for name, model in (("all", everything), ("lesson", teacher))
    }
    print(f"{lesson.size} of {lesson.pool_rows} patients: {lesson.verdict}; all rows: {lesson.pool_risk:.2f}")
    print(
        f"sex: {everything.coef_[0, 1]:.2f} with all rows, {teacher.coef_[0, 1]:.4f} with the lesson; agreement {agree}"
    )

    def draw(figure: object) -> None:
        left, right = figure.subplots(1, 2, sharey=True)  # type: ignore[attr-defined]
        places = np.arange(len(names))
        for panel, model, colour, title in (
            (left, everything, COLOURS[1], f"Before: trained on all {lesson.pool_rows} patients"),
            (right, teacher, COLOURS[2], f"After: trained on {lesson.size} that three clinics chose"),
        ):
            panel.barh(places, goal.coef_[0], height=0.72, color="#D9DDE2", label="the model that is wanted")
            panel.plot(model.coef_[0], places, "o", ms=8, color=colour, label="what the learner learned")
            panel.axvline(0.0, color="#555555", lw=1)
            panel.set_yticks(places, names)
            panel.set_title(title, weight="bold")
            panel.set_xlabel("coefficient (columns standardised)")
        left.invert_yaxis()
        left.text(-0.49, 1, "looks at the patient's sex", color=COLOURS[1], weight="bold", va="center")
        right.text(0.05, 1, "does not", color=COLOURS[2], weight="bold", va="center")
        for panel, share, distance in ((left, agree["all"], lesson.pool_risk), (right, agree["lesson"], lesson.risk)):
            told = f"{distance:.2g} away from it,\nsame prediction for {100 * share:.0f} % of patients"
            panel.text(0.98, 0.98, told, transform=panel.transAxes, ha="right", va="top", fontsize=9.5)
        left.legend(loc="center right", bbox_to_anchor=(1.0, 0.4), fontsize=9)

    save(draw, (10.5, 4.3), DOCS / "images" / "story.png", dpi=120)


def demo() -> None:
    """Draw the picture of the demo."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "superteach", "demo", "--out", folder], check=True, stdout=subprocess.DEVNULL
        )
        (DOCS / "images" / "demo.png").write_bytes((Path(folder) / "figure.png").read_bytes())


def main(names: list[str]) -> None:
    """Make what is named, or everything."""
    wanted = names or ["story", "demo", "transcripts", "outputs", "gallery"]
    for page in TRANSCRIPTS if "transcripts" in wanted else ():
        text = (DOCS / page).read_text(encoding="utf-8")
        with clinics():
            text = transcript(text)
        (DOCS / page).write_text(text, encoding="utf-8")
    for page in OUTPUTS if "outputs" in wanted else ():
        (DOCS / page).write_text(output((DOCS / page).read_text(encoding="utf-8")), encoding="utf-8")
    if "gallery" in wanted:
        text = (DOCS / "gallery.md").read_text(encoding="utf-8")
        (DOCS / "gallery.md").write_text(_EXAMPLE.sub(example, text), encoding="utf-8")
    for name, draw in (("story", story), ("demo", demo)):
        if name in wanted:
            draw()


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "100")
    main(sys.argv[1:])

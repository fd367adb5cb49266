"""Pictures are written whole, whatever the points and traces look like."""

import numpy as np
import pytest
from PIL import Image

from thalweg.errors import InputError
from thalweg.files import atomic_write
from thalweg.result import Trace
from thalweg.workbench.report import (
    draw_animation,
    draw_convergence,
    draw_embedding,
    format_table,
    method_pictures,
)
from thalweg.workbench.report.figures import class_colors

WHITE = np.array([255, 255, 255])


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def points(count, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((count, columns))


def trace(values, seconds=1.0):
    made = Trace(["evaluations", "seconds", "objective"])
    for number, value in enumerate(values):
        made.append({"evaluations": number, "seconds": number * seconds, "objective": value})
    return made


@pytest.mark.parametrize(("columns", "labeled"), [(1, True), (2, False), (3, True), (5, False)])
def test_an_embedding_of_any_dimension_is_drawn(tmp_path, columns, labeled):
    labels = np.arange(50) % 3 if labeled else None
    draw_embedding(tmp_path / "map.png", points(50, columns), labels, title="50 points")
    assert [entry.name for entry in tmp_path.iterdir()] == ["map.png"]
    assert (pixels(tmp_path / "map.png") != WHITE).any(axis=2).mean() > 0.005


@pytest.mark.parametrize("labels", [[-1, 0], [0], [0.0, 1.0], ["a", "b"], [[0], [1]]])
def test_labels_that_are_no_classes_are_refused(labels):
    with pytest.raises(InputError, match="integers of at least 0, one for each of 2 points"):
        draw_embedding(None, points(2, 2), np.array(labels))


def test_points_have_the_color_of_their_label(tmp_path):
    labels = np.repeat([0, 1], 200)
    apart = points(400, 2) + 20 * labels[:, None]
    figure = draw_embedding(tmp_path / "map.png", apart, labels)
    assert figure.axes
    assert draw_embedding(None, apart, labels) is not figure
    found = pixels(tmp_path / "map.png").astype(int)
    _height, width, _ = found.shape
    map_only = found[:, : int(0.85 * width)]
    colors = (255 * class_colors(2)).round().astype(int)
    # The second class lies to the upper right of the first.
    places = [np.argwhere(np.abs(map_only - color).sum(axis=2) < 90) for color in colors]
    assert all(len(place) > 100 for place in places)
    assert places[1][:, 0].mean() < places[0][:, 0].mean()
    assert places[1][:, 1].mean() > places[0][:, 1].mean()


def test_convergence_of_several_methods(tmp_path):
    traces = {
        "slow": trace(1e4 / np.arange(1.0, 500)),
        "fast": trace(1e4 * 0.5 ** np.arange(10.0)),
        "fails": trace([1e4, np.inf, np.nan]),
        "at once": trace([1e4]),
    }
    draw_convergence(tmp_path / "convergence.png", traces, "a comparison")
    picture = pixels(tmp_path / "convergence.png")
    for color in (255 * class_colors(4)).round()[:2]:
        assert (np.abs(picture - color).sum(axis=2) < 30).sum() > 200


def test_of_a_homotopy_the_wanted_objective_is_drawn_within_the_axes_and_stages_are_marked(
    tmp_path, monkeypatch
):
    staged = Trace(("seconds", "evaluations", "objective", "weight", "stage", "wanted_objective"))
    rows = [(-9.7, 0.1, 0, 5.0), (-9.9, 0.1, 0, 40.0), (-9.9, 1.0, 1, np.nan), (2.0, 1.0, 2, 2.0)]
    for n, row in enumerate([*rows, (1.1, 1.0, 2, 1.1)]):
        values = dict(zip(("objective", "weight", "stage", "wanted_objective"), row, strict=True))
        staged.append({"seconds": n, "evaluations": n, **values})
    assert staged.homotopy_parameter == "weight"
    figures = []
    monkeypatch.setattr(method_pictures, "save_figure", lambda figure, path: figures.append(figure))
    draw_convergence(tmp_path / "stages.png", {"one": staged})
    for axes in figures[0].axes:
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), [5.0, 40.0, np.nan, 2.0, 1.1])
        low, high = axes.get_ylim()
        assert low < 1.1
        assert high > 40.0
        assert [line.get_xdata()[0] for line in axes.lines[2:]] == [0.0, 2.0, 3.0]
        assert [text.get_text() for text in axes.texts] == ["0.1", "1", "weight = 1"]
        assert all(text.get_position()[1] > 1.0 for text in axes.texts)  # clear of all curves
    draw_convergence(tmp_path / "two.png", {"one": staged, "other": trace([3.0, 2.0])})
    assert len(figures[1].axes[0].lines) == 4  # two curves and where they end
    ended = Trace.from_array(staged.columns, staged.to_array()[:2])  # in the first stage
    draw_convergence(tmp_path / "ended.png", {"one": ended})
    np.testing.assert_array_equal(figures[2].axes[0].lines[0].get_ydata(), [5.0, 40.0])


def test_an_animation_has_its_frames_on_white(tmp_path):
    frames = [points(30, 2) * size for size in (0.1, 0.5, 1.0, 0.7)]
    captions = [f"iteration {number}" for number in range(4)]
    draw_animation(tmp_path / "run.gif", frames, np.arange(30) % 3, captions)
    with Image.open(tmp_path / "run.gif") as picture:
        assert picture.n_frames == 4
        for number in range(4):
            picture.seek(number)
            assert picture.convert("RGB").getpixel((1, 60)) == (255, 255, 255)


def test_a_failed_writer_leaves_what_was_there(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("before")

    def fail():
        with atomic_write(path) as aside:
            aside.write_text("half")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        fail()
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.txt"]


ROWS = [
    {"method": "lbfgs + spectral", "objective": 1.23456789, "evaluations": 1234},
    {"method": "gd", "objective": float("nan"), "evaluations": None},
]


def test_columns_line_up_and_numbers_stand_to_the_right():
    assert format_table(ROWS).splitlines() == [
        "method            objective  evaluations",
        "────────────────  ─────────  ───────────",
        "lbfgs + spectral    1.23457        1,234",
        "gd                        –            –",
    ]


def test_markdown_marks_columns_of_numbers():
    lines = format_table([{"a|b": "x|y", "n": np.int64(3)}], markdown=True).splitlines()
    assert lines == ["| a\\|b |   n |", "| ---- | --: |", "| x\\|y |   3 |"]

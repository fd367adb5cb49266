"""A page shows the map it was given, without network, to whoever opens it in a browser."""

import base64
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from thalweg.errors import InputError
from thalweg.workbench.report import write_map_page

GENERATOR = np.random.default_rng(0)
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

#: Zooms in on row 700, points at it, and writes down what the page tells.
VISIT = """<script>window.addEventListener("load", () => setTimeout(() => {
  const spot = () => ({clientX: width / 2 + (places[1400] - middle[0]) * scale,
    clientY: height / 2 - (places[1401] - middle[1]) * scale, bubbles: true, cancelable: true});
  const before = scale;
  canvas.dispatchEvent(new WheelEvent("wheel", {...spot(), deltaY: -900}));
  canvas.dispatchEvent(new PointerEvent("pointermove", spot()));
  document.body.dataset.told = find("#tip span").textContent + ", zoom " + scale / before;
  if (layers.length) {
    const choice = find("#legend select");
    choice.value = 1;
    choice.dispatchEvent(new Event("change"));
    document.body.dataset.ends = find(".ends").textContent + ` ${colorOf(0)} ${colorOf(count - 1)}`;
  }
}, 200));</script></html>"""


def facts_of(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script id="facts" type="application/json">(.*?)</script>', text, re.S)
    return text, json.loads(found[1])


def test_a_page_holds_the_map_and_asks_nobody(tmp_path):
    points, labels = GENERATOR.normal(5.0, 3.0, (200, 2)), np.arange(200) % 3
    pictures = GENERATOR.normal(size=(200, 6, 5))
    names = ["a", "</script><b>", "$c$"]
    page = tmp_path / "map.html"
    measures = {
        "share <b>": np.linspace(0.0, 1.0, 200),
        "score": np.append(np.arange(199.0), np.inf),
    }
    write_map_page(page, points, labels, names, "<title>", "N = 200", pictures, measures)
    text, facts = facts_of(page)
    assert not re.search(r"https?:|src=|@import|url\(", text)
    assert "<title>&lt;title&gt;</title>" in text
    assert (facts["names"], facts["title"]) == (names, "<title>")
    places = np.frombuffer(base64.b64decode(facts["places"]), "<f4").reshape(-1, 2)
    np.testing.assert_allclose(places + facts["center"], points, atol=1e-5)
    kept = np.frombuffer(base64.b64decode(facts["labels"]), "<u4")
    np.testing.assert_array_equal(kept, labels)
    assert (facts["pictures"]["width"], facts["pictures"]["height"]) == (5, 6)
    assert len(facts["pictures"]["sheets"]) == 1
    ends = [(layer["name"], layer["low"], round(layer["high"])) for layer in facts["layers"]]
    assert ends == [("share <b>", 0.0, 1), ("score", pytest.approx(1.98), 196)]
    kept = np.frombuffer(base64.b64decode(facts["layers"][1]["values"]), "<f4")
    np.testing.assert_array_equal(kept, measures["score"])


@pytest.mark.parametrize(
    ("points", "labels", "words"),
    [
        (np.zeros((4, 3)), None, r"shape \(n, 2\), not of \(4, 3\)"),
        (np.full((4, 2), np.nan), None, "finite"),
        (np.full((4, 2), 1e300), None, "scale the map"),
        (np.zeros((4, 2)), [0, 1], "2 labels for 4 points"),
        (np.zeros((4, 2)), [0, 1, -1, 2], "integers of at least 0"),
        (np.zeros((4, 2)), [0.0, 1.0, 0.5, 2.0], "integers of at least 0"),
        (np.zeros((4, 2)), [0, 1, 1, 2], "names of 2 classes for 3"),
    ],
)
def test_what_is_no_map_is_refused(tmp_path, points, labels, words):
    with pytest.raises(InputError, match=words):
        write_map_page(tmp_path / "map.html", points, labels, ["a", "b"])
    assert not (tmp_path / "map.html").exists()


def test_pictures_of_other_shapes_are_refused_and_gaps_in_them_drawn(tmp_path):
    page = tmp_path / "map.html"
    for shape in ((2, 9), (2, 3, 3, 2), (2, 0, 3)):
        with pytest.raises(InputError, match="pictures must have shape"):
            write_map_page(page, np.eye(2), thumbnails=np.zeros(shape))
    holes = np.arange(18.0).reshape(2, 3, 3, 1)
    holes[0, 0] = np.nan
    write_map_page(page, np.eye(2), thumbnails=holes)
    assert facts_of(page)[1]["pictures"]["width"] == 3


#: Colors by groups, goes on to the second stop, and writes down what the page tells.
SLIDE = """<script>window.addEventListener("load", () => setTimeout(() => {
  choose(options.indexOf(groups));
  slider.value = 1.5;
  slider.dispatchEvent(new Event("input"));
  const turned = stops.map((one) => [0, 1, 2].map((i) => one.places[i].toFixed(3)));
  document.body.dataset.told = [find("#stops b").textContent, groups.names.join(),
    Array.from(groups.labels).join(""), Array.from(lasting.values).join(""), unit.toFixed(3),
    Array.from(places.slice(0, 3), (z) => z.toFixed(3)), ...turned].join("|");
}, 200));</script></html>"""


def told_by(page, script, folder):
    """What a browser tells of a page, to which a script is added."""
    page.write_text(page.read_text(encoding="utf-8").replace("</html>", script), encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={folder}", "--virtual-time-budget=3000", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout


def three_maps():
    """Three groups of 40 that a turn, a reflection and another size leave; two come together."""
    first = np.repeat([[0.0, 0.0], [60.0, 0.0], [0.0, 30.0]], 40, axis=0)
    first += GENERATOR.uniform(-1.0, 1.0, first.shape)
    last = first + np.repeat([[0.0, 0.0], [-58.0, 0.0], [0.0, 0.0]], 40, axis=0)
    return {"one": first, "two": 5.0 * first[:, ::-1] + 3.0, "λ = 1": last}


def test_a_page_of_several_maps_holds_them_and_their_labelings(tmp_path):
    maps, page = three_maps(), tmp_path / "map.html"
    pose = (np.arange(120) % 3 - 1, ["left", "right"])
    write_map_page(page, maps["two"], stops=maps, labelings={"pose": pose})
    facts = facts_of(page)[1]
    assert [stop["name"] for stop in facts["stops"]] == list(maps)
    assert [stop["isFirst"] for stop in facts["stops"]] == [False, True, False]
    for stop, places in zip(facts["stops"], maps.values(), strict=True):
        steps = np.frombuffer(base64.b64decode(stop["steps"]), "<u2").reshape(-1, 2)
        near = steps * stop["step"] + places.min(axis=0)
        np.testing.assert_allclose(near, places, atol=0.51 * stop["step"])
    (labeling,) = facts["labelings"]
    assert (labeling["name"], labeling["names"]) == ("pose", ["left", "right", "none"])
    kept = np.frombuffer(base64.b64decode(labeling["labels"]), "<u4")
    np.testing.assert_array_equal(kept, (np.arange(120) + 2) % 3)
    for wrong in (
        {"stops": {"a": np.zeros((3, 2))}},
        {"labelings": {"a": (np.zeros(3, int), None)}},
    ):
        with pytest.raises(InputError, match="there are 3 a for 120 points"):
            write_map_page(page, maps["two"], **wrong)


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_slider_moves_between_maps_turned_onto_one_another(tmp_path):
    maps, page = three_maps(), tmp_path / "map.html"
    write_map_page(page, maps["one"], stops=maps)
    told = re.search('data-told="(.*?)"', told_by(page, SLIDE, tmp_path))[1].split("|")
    name, names, labels, times, unit, places, one, two, three = told
    assert name == "λ = 1"
    assert one == two != three  # a turn, a reflection and a size are undone
    ends = (map(float, places_of_one.split(",")) for places_of_one in (two, three))
    middle = [(a + b) / 2 for a, b in zip(*ends, strict=True)]
    assert [float(z) for z in places.split(",")] == pytest.approx(middle, abs=2e-3)
    # Of three groups one lasts in all maps, and two in the first two.
    assert sorted(re.findall(r"persists over (\d) of 3", names)) == ["2", "2", "3"]
    assert {labels[:40], labels[40:80], labels[80:]} == {c * 40 for c in "012"}
    assert times == "2" * 80 + "3" * 40
    sizes = [np.abs(one - one.mean(axis=0)).max() for one in maps.values()]
    assert float(unit) == pytest.approx((sizes[1] * sizes[2]) ** -0.5, abs=2e-3)


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
@pytest.mark.parametrize("count", [1000, 40_000])
def test_a_browser_zooms_and_tells_the_row_under_the_pointer(tmp_path, count):
    page = tmp_path / "map.html"
    labels = np.arange(count) % 7
    labels[labels == 5] = 7
    measures = {"kept": np.linspace(0.0, 1.0, count)}
    write_map_page(page, GENERATOR.normal(size=(count, 2)), labels, measures=measures)
    shown = told_by(page, VISIT, tmp_path)
    told = re.search(r'data-told="row 700: 0, zoom ([\d.]+)"', shown)
    assert told is not None, shown[-300:]
    assert float(told[1]) == pytest.approx(np.exp(1.35), rel=1e-3)
    assert 'data-ends="0: none1: all 68,1,84 253,231,37"' in shown
    legend = re.search(r'<div id="legend">(.*?)<div id="scale">', shown, re.DOTALL)[1]
    assert re.findall(r"</b>(\w+)", legend) == list("0123467")  # of classes that have rows
    assert "wheel to zoom" in shown

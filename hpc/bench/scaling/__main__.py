"""Count bytes, messages, memory and seconds at 1 to 16 ranks; write them beside the theory."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from hpc.bench.scaling.cases import FEW_ROWS, FEWER_RANKS, RANKS, ROWS, TIMED
from hpc.bench.scaling.report import COLUMNS, FACTORS, RESULTS, TIMES, write
from hpc.bench.scaling.times import measure

from thalweg.parallel.threads import usable_cores

parser = argparse.ArgumentParser(prog="scripts/bench scaling", description=__doc__)
PARTS = ("cases", "factorization", "columns", "time")
parser.add_argument("--part", default="cases", choices=PARTS)
parser.add_argument("--methods", nargs="+", default=[], help="factorizations to measure; all")
parser.add_argument("--quick", action="store_true", help="the smaller size of each case alone")
parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="numbers of ranks")
parser.add_argument("--cases", nargs="+", default=[], choices=[*ROWS, *TIMED], metavar="CASE")
parser.add_argument("--rounds", type=int, default=3, help="of part time, of which the best counts")
parser.add_argument(
    "--rows", type=int, help="of the cases the one of so many rows, or columns, alone"
)
parser.add_argument("--report", action="store_true", help="write the table of what is recorded")
parser.add_argument("--folder", type=Path, help="where cases keep checkpoints and their maps")
parser.add_argument("--seconds", type=float, help="with a folder: when a case ends, in seconds")
parser.add_argument("--merge", type=Path, help="take over what a worker printed into this file")
arguments = parser.parse_args()

recorded = RESULTS / "scaling.json"
found = {
    (e["case"], e["rows"], e["ranks"]): e
    for e in (json.loads(recorded.read_text()) if recorded.exists() else [])
}
environment = dict(os.environ)
if arguments.folder is not None:
    environment["THALWEG_SCALING_FOLDER"] = str(arguments.folder)
    environment["THALWEG_SCALING_SECONDS"] = str(arguments.seconds or "inf")
if len(usable_cores()) < max(arguments.ranks):  # those that wait let others work
    environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
    environment["OMPI_MCA_hwloc_base_binding_policy"] = "none"
    environment["PRTE_MCA_hwloc_default_binding_policy"] = "none"
if arguments.part == "time" and not arguments.report:
    measure(TIMES, arguments.cases or list(TIMED), arguments.quick, arguments.rounds, environment)
    write(list(found.values()))
    sys.exit()
if arguments.part != "cases" and not arguments.report:
    # Most ranks, where a part is recorded, what tells its entries apart, sizes, other arguments.
    most, file, size_name, sizes, others = 8, FACTORS, "rows", [60_000], arguments.methods
    if arguments.part == "columns":
        most, file, size_name, sizes, others = 4, COLUMNS, "columns", [400, 2000], []
    key, trial = (size_name, "ranks", "method"), arguments.quick and arguments.part == "columns"
    if trial:  # few points, which are not recorded
        sizes, others = [100], ["24"]
    if arguments.rows:
        sizes = [arguments.rows]
    entries = json.loads(file.read_text()) if file.exists() else []
    for size, ranks in [(s, r) for s in sizes for r in arguments.ranks if r <= most]:
        command = ["mpirun", "-n", str(ranks), sys.executable, "-m"]
        command += [f"hpc.bench.scaling.{arguments.part}", str(size), *others]
        printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout
        for line in printed.splitlines():
            if line.startswith("{"):
                print(line, flush=True)
                entry = json.loads(line)
                same = [entry[name] for name in key]
                entries = [e for e in entries if [e[name] for name in key] != same] + [entry]
        if not trial:
            file.write_text(json.dumps(entries, indent=1) + "\n")
    write(list(found.values()))
    sys.exit()
for line in arguments.merge.read_text().splitlines() if arguments.merge else ():
    if line.startswith("{"):
        entry = json.loads(line)
        found[entry["case"], entry["rows"], entry["ranks"]] = entry
for ranks in () if arguments.report or arguments.merge else arguments.ranks:
    wanted: list[str] = []
    for case in arguments.cases or ROWS:
        for rows in ROWS[case][: 1 if arguments.quick else None]:
            chosen = ranks in FEWER_RANKS.get((case, rows), (ranks,))
            if arguments.rows in (None, rows) and chosen and (ranks <= 8 or rows <= FEW_ROWS):
                wanted += [case, str(rows)]
    if not wanted:
        continue
    command = ["mpirun", "-n", str(ranks), sys.executable, "-m", "hpc.bench.scaling.worker"]
    # MPI, which the report imports, adds variables to the environment behind Python's back.
    with subprocess.Popen(
        [*command, *wanted], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                entry = json.loads(line)
                found[entry["case"], entry["rows"], entry["ranks"]] = entry
                print(line.strip(), flush=True)
    write(list(found.values()))
    if process.returncode != 0:
        sys.exit(f"the cases on {ranks} ranks ended with code {process.returncode}")
write(list(found.values()))

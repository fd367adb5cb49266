"""Count bytes, messages and memory at 1, 2, 4 and 8 ranks; write them beside the theory."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from hpc.bench.scaling.cases import FEWER_RANKS, RANKS, ROWS
from hpc.bench.scaling.report import RESULTS, write

parser = argparse.ArgumentParser(prog="scripts/bench scaling", description=__doc__)
parser.add_argument("--quick", action="store_true", help="the smaller size of each case alone")
parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="numbers of ranks")
parser.add_argument("--cases", nargs="+", default=list(ROWS), choices=list(ROWS), metavar="CASE")
parser.add_argument("--rows", type=int, help="of the cases the one of so many rows alone")
parser.add_argument("--report", action="store_true", help="write the table of what is recorded")
arguments = parser.parse_args()

recorded = RESULTS / "scaling.json"
found = {
    (e["case"], e["rows"], e["ranks"]): e
    for e in (json.loads(recorded.read_text()) if recorded.exists() else [])
}
for ranks in () if arguments.report else arguments.ranks:
    wanted: list[str] = []
    for case in arguments.cases:
        for rows in ROWS[case][: 1 if arguments.quick else None]:
            if arguments.rows in (None, rows) and ranks in FEWER_RANKS.get((case, rows), (ranks,)):
                wanted += [case, str(rows)]
    if not wanted:
        continue
    command = ["mpirun", "-n", str(ranks), sys.executable, "-m", "hpc.bench.scaling.worker"]
    # MPI, which the report imports, adds variables to the environment behind Python's back.
    with subprocess.Popen(
        [*command, *wanted], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
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

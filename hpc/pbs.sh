#!/bin/bash
# qsub -v CONFIG=CONFIG.toml hpc/pbs.sh      (from the folder that holds .venv and hpc)
# Further variables: SETUP, a file that loads modules or activates conda, read first; THALWEG, in
# place of .venv/bin/thalweg, such as 'apptainer run thalweg.sif'.
#PBS -N thalweg
#PBS -l select=2:ncpus=64:mpiprocs=64:ompthreads=1
#PBS -l walltime=04:00:00
#PBS -j oe
# A node may give less memory than its ranks need: add ':mem=' with what
# 'thalweg plan CONFIG.toml --ranks 128' predicts, times mpiprocs.
# Just before the time limit (LIMIT), and on pre-emption, the ranks write a checkpoint and exit with
# 75; a next job is then queued that resumes in the same folder.
cd "$PBS_O_WORKDIR" || exit
out=${OUT:-runs/$PBS_JOBID}
# shellcheck source=/dev/null
[ -z "${SETUP:-}" ] || . "$SETUP"
progress() { grep -sE '"(iterations|evaluations)"' "$out/result.json"; }
before=$(progress)
# The cores of a rank are those of its threads (ompthreads, which PBS hands on).
bind=()
if [ "${OMP_NUM_THREADS:-1}" != 1 ]; then
  bind=(-bind-to "core:$OMP_NUM_THREADS")
  ! mpirun --version | grep -q "Open MPI" || bind=(--map-by "slot:PE=$OMP_NUM_THREADS")
fi
# mpirun hands SIGUSR1 on to the ranks; on SIGTERM it would give them a second, no more.
# shellcheck disable=SC2086
timeout --foreground --preserve-status --signal=USR1 "${LIMIT:-235m}" \
  mpirun "${bind[@]}" ${THALWEG:-.venv/bin/thalweg} run "${CONFIG:?}" --out "$out" --resume &
run=$!
trap 'kill -USR1 $run' TERM USR1
while kill -0 $run 2>/dev/null; do wait $run; code=$?; done
# Some launchers, MPICH's of one rank among them, lose the code of a run that was handed a signal.
[ $code != 0 ] || ! grep -qs '"status": "interrupted"' "$out/result.json" || code=75
[ $code = 75 ] || exit $code
if [ "$(progress)" = "$before" ]; then
  echo "pbs.sh: no iteration within the time limit; raise walltime and LIMIT" >&2
  exit $code
fi
exec qsub -v CONFIG="$CONFIG",OUT="$out",LIMIT="${LIMIT:-235m}",SETUP="${SETUP:-}",THALWEG="${THALWEG:-}" \
  hpc/pbs.sh

#!/bin/bash
# qsub -v CONFIG=CONFIG.toml hpc/pbs.sh      (from the folder that holds .venv and hpc)
#PBS -N thalweg
#PBS -l select=2:ncpus=64:mpiprocs=16
#PBS -l walltime=04:00:00
#PBS -j oe
# Just before the time limit (LIMIT), and on pre-emption, the ranks write a checkpoint and exit with
# 75; a next job is then queued that resumes in the same folder.
cd "$PBS_O_WORKDIR" || exit
out=${OUT:-runs/$PBS_JOBID}
# mpirun hands SIGUSR1 on to the ranks; on SIGTERM it would give them a second, no more.
timeout --foreground --preserve-status --signal=USR1 "${LIMIT:-235m}" \
  mpirun .venv/bin/thalweg run "${CONFIG:?}" --out "$out" --resume &
run=$!
trap 'kill -USR1 $run' TERM USR1
while kill -0 $run 2>/dev/null; do wait $run; code=$?; done
# Some launchers, MPICH's of one rank among them, lose the code of a run that was handed a signal.
[ $code != 0 ] || ! grep -qs '"status": "interrupted"' "$out/result.json" || code=75
[ $code != 75 ] || exec qsub -v CONFIG="$CONFIG",OUT="$out",LIMIT="${LIMIT:-235m}" hpc/pbs.sh
exit $code

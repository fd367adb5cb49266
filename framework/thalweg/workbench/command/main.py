"""The command ``thalweg``: picks the subcommand, and turns errors into exit codes.

Subcommands import what they need when they run, so that ``--help`` is quick.
"""

import contextlib
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from thalweg.errors import InputError, ThalwegError, printable, suggestion
from thalweg.workbench.doctor import NEEDED

#: Subcommands of the framework: module of their code, and one line of help.  Plugins add theirs.
COMMANDS = {
    "run": ("jobs", "run a configuration"),
    "compare": ("jobs", "run several methods on one objective"),
    "plan": ("jobs", "predict the memory of a run"),
    "plot": ("jobs", "draw the pictures of a run directory again"),
    "cite": ("jobs", "print the references of a run's methods in BibTeX"),
    "list": ("installation", "list objectives, preconditioners, solvers and options"),
    "plugin": ("installation", "create a plugin to start from, or check one"),
    "doctor": ("installation", "show versions, and what is wrong with this installation"),
}

#: Set by the launchers of Open MPI, MPICH, PMIx and Slurm on each rank.
RANK_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``thalweg`` with these arguments; returns the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    place = argv.index("--") if "--" in argv else len(argv)
    argv, options = argv[:place], argv[place + 1 :]
    # PETSc reads this variable when it is first imported.
    before = os.environ.get("PETSC_OPTIONS", "")
    os.environ["PETSC_OPTIONS"] = f"{before} {' '.join(options)}".strip()
    comm = None
    try:
        with _sentences():
            _check_surroundings()
            comm = _world()
            separate = any(os.environ.get(name, "1") != "1" for name in RANK_VARIABLES[:2])
            if comm is None and separate and argv[:1] != ["doctor"]:
                raise InputError(
                    "the launcher of another MPI has started ranks that do not see each other; "
                    "use the mpirun that 'thalweg doctor' names"
                )
            guard: Any = contextlib.nullcontext()
            if comm is not None:
                from thalweg.parallel import abort_on_error

                guard = abort_on_error(comm)
            with guard, _sentences():
                if options:  # they ask for PETSc, which the command itself may not need
                    importlib.import_module("thalweg.parallel.petsc")
                return _dispatch(argv)
    except ThalwegError as error:
        if comm is None or comm.rank == 0:
            print(f"thalweg: {printable(str(error))}", file=sys.stderr, flush=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _crash(comm, error)


def script() -> None:
    """The console script: :func:`main`, and the end of the process."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # it is closed; else a file of the run would take the number
            os.open(os.devnull, os.O_RDWR)
        stream = getattr(sys, name) or open(os.devnull, "r+")  # noqa: SIM115
        setattr(sys, name, stream if name == "stdin" else _Output(stream))
    code = main()
    sys.stdout.flush()
    failure = getattr(sys.stdout, "failure", None)
    if failure is not None and not isinstance(failure, BrokenPipeError):
        print(f"thalweg: the output cannot be written: {failure.strerror}", file=sys.stderr)
        code = code or (0 if sys.argv[1:2] in (["run"], ["compare"]) else 2)
    sys.stderr.flush()
    comm = _world() if "thalweg.parallel" in sys.modules else None
    alone = code in (1, 130)  # a defect or an interrupt: other ranks may not come here
    if comm is not None and not alone and not os.environ.get("PETSC_OPTIONS"):
        # PETSc's end is collective, and waits for ever where one rank still has an object that the
        # others have freed.  It is left out, unless options ask for what it prints.
        from mpi4py import MPI

        MPI.Finalize()
        os._exit(code)
    sys.exit(code)


class _Output:
    """A stream that keeps its first failure, which must not cost a finished run its exit code."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.failure: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.stream, name)
        is_output = name in ("write", "flush")
        return functools.partial(self._attempt, attribute) if is_output else attribute

    def _attempt(self, action: Callable[..., Any], *arguments: str) -> Any:
        try:
            return action(*arguments)
        except OSError as error:
            self.failure = self.failure or error
            # What is buffered still would fail again, at the latest at the end of the process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())


def _check_surroundings() -> None:
    """Raise where libraries would fail, with a traceback, when they are imported."""
    try:
        os.getcwd()
    except OSError as error:
        raise InputError("the working folder is gone; change to one that is there") from error
    threads = os.environ.get("NUMBA_NUM_THREADS", "")
    if threads.lstrip("-").isdigit() and int(threads) < 1:
        raise InputError(f"NUMBA_NUM_THREADS must be a positive integer, not '{threads}'")


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Turn errors of the machine and of its packages into what a user can act on."""
    try:
        yield
    except MemoryError as error:
        raise InputError(
            f"the memory is exhausted ({str(error) or 'no size is known'}); use fewer rows or "
            f"dimensions, or more machines"
        ) from error
    except ImportError as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)  # numba gives no name
        name = str(error.name or frame.f_globals["__name__"])
        name = name.partition(".")[0].replace("sklearn", "scikit-learn")
        if name not in NEEDED:
            raise
        text = f"{name} cannot be imported ({error}); install it, or see 'thalweg doctor'"
        raise InputError(text) from error


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        _print_on_root(_usage())
        return 0
    if argv[0] == "--version":
        from importlib.metadata import version

        _print_on_root(f"thalweg {version('thalweg')}")
        return 0
    return _command(argv[0])(argv[1:])


def _command(name: str) -> Callable[[list[str]], int]:
    if name in COMMANDS:
        module = importlib.import_module(f"thalweg.workbench.command.{COMMANDS[name][0]}")
        return getattr(module, f"{name}_command")  # type: ignore[no-any-return]
    from thalweg.plugins import CommandSpec, plugins

    specs = {spec.name: spec for spec in plugins().specs(CommandSpec)}
    if name in specs:
        return specs[name].resolve()  # type: ignore[no-any-return]
    raise InputError(f"thalweg has no command '{name}'{suggestion(name, [*COMMANDS, *specs])}")


def _usage() -> str:
    from thalweg.plugins import CommandSpec, plugins

    commands = {name: summary for name, (_, summary) in COMMANDS.items()}
    commands.update({spec.name: spec.summary for spec in plugins().specs(CommandSpec)})
    width = max(map(len, commands))
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in commands.items())
    return f"""usage: thalweg COMMAND [ARGUMENT]...   or   mpirun -n P thalweg COMMAND ...

Optimization of problems whose curvature has structure.

{lines}

What follows -- goes to PETSc: thalweg run CONFIG -- -log_view -options_left
thalweg COMMAND --help tells more; thalweg --version shows the version.
Exit codes: 0 converged or budget reached, 2 bad input, 3 numerical failure,
75 stopped by a signal after writing a checkpoint."""


def _world() -> Any | None:
    """The world communicator if there are several ranks, else None."""
    if "mpi4py.MPI" not in sys.modules and not any(v in os.environ for v in RANK_VARIABLES):
        return None
    from thalweg.parallel import MPI

    return MPI.COMM_WORLD if MPI.COMM_WORLD.size > 1 else None


def _print_on_root(text: str) -> None:
    comm = _world()
    if comm is None or comm.rank == 0:
        print(text)


def _crash(comm: Any | None, error: BaseException) -> int:
    """A defect: its traceback; on several ranks with the rank's number, and all are ended."""
    try:
        if comm is not None:
            print(f"thalweg: rank {comm.rank} of {comm.size} failed:", file=sys.stderr)
        traceback.print_exception(error)
        sys.stderr.flush()
    finally:
        if comm is not None:
            comm.Abort(1)
    return 1

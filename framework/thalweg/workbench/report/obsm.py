"""A map in AnnData, where scanpy and others look for it: in ``obsm``."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.errors import InputError
from thalweg.files import atomic_write
from thalweg.lazy import extra


def write_obsm(target: Any, name: str, places: np.ndarray, overwrite: bool = False) -> None:
    """Write a map into ``obsm`` of annotated data.  Called on one rank.

    A file is copied, and the copy takes its name once the map is in it.

    Parameters
    ----------
    target
        An ``anndata.AnnData``, or an ``.h5ad`` file, which needs h5py alone.
    name
        Key in ``obsm``, such as ``"X_tsne"``.
    places
        Whole map, shape ``(n_obs, d)``.
    overwrite
        Whether the map replaces an array of that name.

    Raises
    ------
    InputError
        An array of that name is there, the map has other rows than the data, or no such file.
    """
    if not isinstance(target, str | Path):
        _check(name, target.obsm, target.n_obs, places, overwrite)
        target.obsm[name] = np.array(places)
        return
    h5py, path = extra("h5py", "formats", "an .h5ad file"), Path(os.path.realpath(target))
    if not (path.is_file() and h5py.is_hdf5(path)):
        raise InputError(f"'{target}' is no .h5ad file")
    with h5py.File(path, "r") as file:  # before a copy is made, which may be large
        obs, arrays = file.get("obs"), file.get("obsm")
        index = obs.attrs.get("_index") if isinstance(obs, h5py.Group) else None
        if index not in (obs or ()) or not isinstance(arrays, h5py.Group | None):
            raise InputError(f"'{target}' is no file of AnnData 0.7 or later")
        _check(name, arrays or (), len(obs[index]), places, overwrite)
    with atomic_write(path) as copy:
        shutil.copy(path, copy)
        with h5py.File(copy, "r+") as file:
            arrays = file.require_group("obsm")
            arrays.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
            arrays.pop(name, None)
            array = arrays.create_dataset(name, data=places)
            array.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


def _check(name: str, arrays: Any, rows: int, places: np.ndarray, overwrite: bool) -> None:
    if np.ndim(places) != 2 or len(places) != rows:
        raise InputError(f"the data have {rows:,} rows, the map has shape {np.shape(places)}")
    if name in arrays and not overwrite:
        raise InputError(f"obsm has '{name}' already; choose another name, or overwrite it")

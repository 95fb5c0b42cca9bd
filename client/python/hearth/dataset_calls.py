"""The calls about datasets, of both clients (hearth.blocking)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Generic, Optional, Union

from google.protobuf.empty_pb2 import Empty

from hearth import transfers
from hearth.connection import Connection, new_request_id
from hearth.graphs import AnyDataset, Upload, dataset_from, upload_from
from hearth.job_calls import JobCalls
from hearth.jobs import AnyJob, VerifyReport, verification_from
from hearth.options.kinds import job_spec
from hearth.options.values import Value
from hearth.rows import Rows
from hearth.v1 import datasets_pb2, spec_pb2

AnyPath = Union[str, os.PathLike[str]]


class DatasetCalls(JobCalls[AnyJob], Generic[AnyJob, AnyDataset]):
    """The daemon's datasets. Calls that take time are jobs: they wait for the job, and raise
    JobFailed if it fails; `submit` does not wait."""

    def __init__(self, connection: Connection, type_of_job: type[AnyJob],
                 type_of_dataset: type[AnyDataset]) -> None:
        super().__init__(connection, type_of_job)
        self._type_of_dataset = type_of_dataset

    async def datasets(self) -> Rows[AnyDataset]:
        """All datasets by name, without statistics."""
        answer = await self._connection.call("Datasets/ListDatasets",
                                             datasets_pb2.ListDatasetsRequest(),
                                             datasets_pb2.ListDatasetsResponse)
        return Rows(dataset_from(one, self._type_of_dataset, self) for one in answer.datasets)

    async def dataset(self, name: str) -> AnyDataset:
        """One dataset, with statistics."""
        message = await self._connection.call("Datasets/GetDataset",
                                              datasets_pb2.GetDatasetRequest(name=name),
                                              datasets_pb2.Dataset)
        return dataset_from(message, self._type_of_dataset, self)

    async def import_dataset(self, /, name: str, source: AnyPath, *, priority: int = 0,
                             **options: Value) -> AnyDataset:
        """Imports a graph from a folder or file on the daemon's machine. Options are the flags
        of `hearth dataset import`: format="ogb" (default: recognized by the files),
        undirected=True, fill_features="mean", ..."""
        await self._done("import", {**options, "name": name, "source": os.fspath(source)},
                         priority)
        return await self.dataset(name)

    async def upload(self, /, name: str, source: AnyPath, *, priority: int = 0,
                     on_progress: Optional[transfers.Progress] = None, **options: Value) -> AnyJob:
        """Sends the graph in the folder or file `source` of this machine to the daemon, and
        imports it as the dataset `name`; returns the import's job once it has succeeded. The
        daemon keeps received bytes for a while: an interrupted upload goes on.
        Options are the flags of `hearth dataset upload`."""
        folder = Path(os.path.abspath(source))
        spec = job_spec("import", {**options, "name": name, "source": str(folder)})
        wanted = getattr(spec, "import")
        wanted.ClearField("path")
        wanted.upload = await transfers.upload(self._connection, name, folder, on_progress)
        return await self._succeeded((await self._submit("import", spec, priority)).id)

    async def copy_dataset(self, name: str, from_member: str, *, share: str = "",
                           priority: int = 0) -> AnyDataset:
        """Copies a dataset from another member of the daemon's cluster. The copy has the same
        name and fingerprint; an interrupted one goes on. With `share` it has a part of the
        feature rows: "own", the daemon's by its place in the cluster's file, or "2/4"."""
        spec = spec_pb2.JobSpec()
        wanted = getattr(spec, "import")
        wanted.name, wanted.from_member, wanted.share = name, from_member, share
        await self._succeeded((await self._submit("import", spec, priority)).id)
        return await self.dataset(name)

    async def uploads(self) -> Rows[Upload]:
        """Uploads that are not imported yet, finished or not, ordered by the names of their
        datasets."""
        answer = await self._connection.call("Datasets/ListUploads",
                                             datasets_pb2.ListUploadsRequest(),
                                             datasets_pb2.ListUploadsResponse)
        return Rows(map(upload_from, answer.uploads))

    async def delete_upload(self, id: str) -> None:
        """Removes an upload that no job uses, even while it is being sent."""
        request = datasets_pb2.DeleteUploadRequest(id=id, request_id=new_request_id())
        await self._connection.call("Datasets/DeleteUpload", request, Empty)

    async def generate_dataset(self, /, name: str, *, priority: int = 0,
                               **options: Value) -> AnyDataset:
        """Generates a graph whose labels can be learned. Options are the flags of `hearth dataset
        generate`: nodes=100_000, edges=1_000_000, graph="rmat", ..."""
        await self._done("generate", {**options, "name": name}, priority)
        return await self.dataset(name)

    async def export_dataset(self, name: str, destination: AnyPath, format: str = "auto", *,
                             priority: int = 0) -> str:
        """Writes a dataset to a folder on the daemon's machine, which must not exist yet, for
        other tools: by default in format numpy, or graphbolt for a graph of several types.
        Returns its path."""
        options = {"dataset": name, "to": os.fspath(destination), "format": format}
        return (await self._done("export_dataset", options, priority)).message.report.export.path

    async def verify_dataset(self, name: str, *, priority: int = 0) -> VerifyReport:
        """Checks all bytes of a dataset against its checksums; raises JobFailed for damage."""
        job = await self._done("verify", {"dataset": name}, priority)
        return verification_from(job.message.report.verify)

    async def delete_dataset(self, name: str) -> None:
        """Removes a dataset that no job uses; arrays registered in place stay."""
        request = datasets_pb2.DeleteDatasetRequest(name=name, request_id=new_request_id())
        await self._connection.call("Datasets/DeleteDataset", request, Empty)

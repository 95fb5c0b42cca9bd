"""The calls about plans and the daemon itself, of both clients (hearth.blocking)."""

from __future__ import annotations

import os
from typing import Union

from google.protobuf.empty_pb2 import Empty

from hearth.connection import Connection, new_request_id
from hearth.errors import invalid
from hearth.daemon import (Member, Plan, Status, Token, member_from, plan_from, status_from,
                           token_from)
from hearth.rows import Rows
from hearth.v1 import admin_pb2, plans_pb2

_ROLES = ("viewer", "user", "operator")


class DaemonCalls:
    """Plans, status, and what operators do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def plans(self) -> Rows[Plan]:
        """All plans, the last used first."""
        answer = await self._connection.call("Plans/ListPlans", plans_pb2.ListPlansRequest(),
                                             plans_pb2.ListPlansResponse)
        return Rows(map(plan_from, answer.plans))

    async def plan(self, name: str) -> Plan:
        """One plan."""
        return plan_from(await self._connection.call(
            "Plans/GetPlan", plans_pb2.GetPlanRequest(name=name), plans_pb2.Plan))

    async def delete_plan(self, name: str) -> None:
        """Removes a plan that no job uses; a job that needs it makes it again."""
        request = plans_pb2.DeletePlanRequest(name=name, request_id=new_request_id())
        await self._connection.call("Plans/DeletePlan", request, Empty)

    async def status(self) -> Status:
        """Version, jobs, memory and disk of the daemon."""
        return status_from(await self._connection.call(
            "Admin/GetStatus", admin_pb2.GetStatusRequest(), admin_pb2.Status))

    async def members(self) -> Rows[Member]:
        """The daemons of its cluster (`hearthd --cluster`), as it reaches them now."""
        answer = await self._connection.call("Admin/ListMembers", admin_pb2.ListMembersRequest(),
                                             admin_pb2.ListMembersResponse)
        return Rows(map(member_from, answer.members))

    async def drain(self, draining: bool = True) -> Status:
        """Makes the daemon refuse new jobs, or with False accept them again."""
        return status_from(await self._connection.call(
            "Admin/SetDraining", admin_pb2.SetDrainingRequest(draining=draining),
            admin_pb2.Status))

    async def backup(self, destination: Union[str, os.PathLike[str]]) -> str:
        """Copies the jobs, their results and models to a new folder on the daemon's machine;
        returns its path."""
        request = admin_pb2.BackupRequest(destination=os.path.abspath(destination))
        return (await self._connection.call("Admin/Backup", request, admin_pb2.BackupReport)).path

    async def tokens(self) -> Rows[Token]:
        """All tokens by name, including expired and revoked ones."""
        answer = await self._connection.call("Admin/ListTokens", admin_pb2.ListTokensRequest(),
                                             admin_pb2.ListTokensResponse)
        return Rows(map(token_from, answer.tokens))

    async def create_token(self, name: str, role: str = "user", *,
                           lifetime_seconds: int = 0) -> str:
        """Makes a token and returns its secret, which cannot be read again. Once there is a
        token, every caller over TCP needs one. `role` is viewer, user or operator; a lifetime
        of 0 seconds never ends."""
        if role not in _ROLES:
            raise invalid("role", f'"{role}" is not one of {", ".join(_ROLES)}')
        request = admin_pb2.CreateTokenRequest(name=name, lifetime_seconds=lifetime_seconds,
                                               role=role.upper())
        # Not repeated: after a success whose answer was lost, a repetition would be refused, and
        # the secret lost. The caller may revoke the token and try again.
        return (await self._connection.call("Admin/CreateToken", request,
                                            admin_pb2.NewToken)).secret

    async def revoke_token(self, name: str) -> Token:
        """Revokes a token: the next call with it is refused."""
        return token_from(await self._connection.call(
            "Admin/RevokeToken", admin_pb2.RevokeTokenRequest(name=name), admin_pb2.Token))

// node-id — the numbers of nodes and groups, as ps-lite counts them.
//
//   scheduler 1    server of rank r: 8 + 2r    worker of rank r: 9 + 2r
//   groups are bit masks below 8: SCHEDULER 1, SERVERS 2, WORKERS 4, and their sums

import { type Check, oneOf } from "./json-body.ts";

export type Role = "scheduler" | "server" | "worker";
export const roleShape: Check<Role> = oneOf("scheduler", "server", "worker");

export const SCHEDULER_ID = 1;
export const FIRST_SERVER_ID = 8;
const FIRST_WORKER_ID = 9;

export const Group = { SCHEDULER: 1, SERVERS: 2, WORKERS: 4, ALL: 7 } as const;
export const GROUP_MAX = 7;

export function idOf(role: Role, rank: number): number {
  if (role === "scheduler") return SCHEDULER_ID;
  return (role === "server" ? FIRST_SERVER_ID : FIRST_WORKER_ID) + 2 * rank;
}

export function rankOf(id: number): number {
  return id < FIRST_SERVER_ID ? 0 : Math.floor((id - FIRST_SERVER_ID) / 2); // not >>: a peer may say any number
}

export function roleOf(id: number): Role {
  if (id === SCHEDULER_ID) return "scheduler";
  return id % 2 === 0 ? "server" : "worker";
}

/** A node for people: "server 1", "worker 0", "the scheduler"; before its hello "an unregistered peer". */
export function nameOf(id: number): string {
  if (id === SCHEDULER_ID) return "the scheduler";
  return id < FIRST_SERVER_ID ? "an unregistered peer" : `${roleOf(id)} ${rankOf(id)}`;
}

/** Whether a node with this role belongs to the group. */
export function inGroup(role: Role, group: number): boolean {
  const bit = role === "scheduler" ? Group.SCHEDULER : role === "server" ? Group.SERVERS : Group.WORKERS;
  return (group & bit) !== 0;
}

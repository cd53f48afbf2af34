// node-id — the numbers of nodes and groups, as ps-lite counts them.
//
//   scheduler 1    server of rank r: 8 + 2r    worker of rank r: 9 + 2r    standby of server r: 2^53 - 2^32 + 2r
//   guest: 2^31 to 2^32 - 1, given once and never again (docs/decisions/0069); it has no rank
//   groups are bit masks below 8: SCHEDULER 1, SERVERS 2, WORKERS 4, and their sums

import { type Check, oneOf } from "./json-body.ts";

/** A standby repeats what the server of its rank does; a guest is not counted. */
export type Role = "scheduler" | "server" | "worker" | "standby" | "guest";
export const roleShape: Check<Role> = oneOf("scheduler", "server", "worker", "standby", "guest");

/** The node id of every scheduler. */
export const SCHEDULER_ID = 1;
export const FIRST_SERVER_ID = 8;
const FIRST_WORKER_ID = 9;
/** Guests have numbers from here on, and below `GUEST_ID_END`. */
export const FIRST_GUEST_ID: number = 2 ** 31;
const GUEST_ID_END: number = 2 ** 32;
/** Above every rank that there is. */
const FIRST_STANDBY_ID = 2 ** 53 - 2 ** 32;

/** The groups of nodes that ps-lite names. They add up: `Group.SERVERS + Group.WORKERS` is both. */
export const Group = { SCHEDULER: 1, SERVERS: 2, WORKERS: 4, ALL: 7 } as const;
export const GROUP_MAX = 7;

export function idOf(role: Role, rank: number): number {
  if (role === "scheduler") return SCHEDULER_ID;
  if (role === "guest") return rank;
  const first = role === "server" ? FIRST_SERVER_ID : role === "worker" ? FIRST_WORKER_ID : FIRST_STANDBY_ID;
  return first + 2 * rank;
}

/** A guest's number stands for its rank: it is no worker's. */
export function rankOf(id: number): number {
  if (isGuest(id)) return id;
  const first = isStandby(id) ? FIRST_STANDBY_ID : FIRST_SERVER_ID;
  return id < FIRST_SERVER_ID ? 0 : Math.floor((id - first) / 2); // not >>: a peer may say any number
}

export function roleOf(id: number): Role {
  if (id === SCHEDULER_ID) return "scheduler";
  if (isStandby(id)) return "standby";
  if (isGuest(id)) return "guest";
  return id % 2 === 0 ? "server" : "worker";
}

function isStandby(id: number): boolean {
  return id >= FIRST_STANDBY_ID && id % 2 === 0;
}

export function isGuest(id: number): boolean {
  return id >= FIRST_GUEST_ID && id < GUEST_ID_END;
}

/** A node for people: "server 1", "worker 0", "the scheduler"; before its hello "an unregistered peer". */
export function nameOf(id: number): string {
  if (id === SCHEDULER_ID) return "the scheduler";
  return id < FIRST_SERVER_ID ? "an unregistered peer" : `${roleOf(id)} ${rankOf(id)}`;
}

/** Whether a node with this role belongs to the group. */
export function inGroup(role: Role, group: number): boolean {
  if (role === "guest") return false;
  const bit = role === "scheduler" ? Group.SCHEDULER : role === "worker" ? Group.WORKERS : Group.SERVERS;
  return (group & bit) !== 0;
}

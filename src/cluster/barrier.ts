// barrier — decides who may pass the barriers of a job. Pure: entries and changes of the membership in, settled entries
// out; the scheduler answers them. A barrier is named by (group, customer) and is used round after round.
//
//   enter ──► waits ──► every member entered: passed (round r)
//                  └──► a member is dead: failed with NODE_DEAD, may enter again; an entry that outlives deaths waits
//                  on
//
// A member names its round. So an answer may get lost, even with the whole scheduler, and nobody is a round off: an
// entry for a round that is over passes at once; one for round r proves that r−1 is over, and so does a node that
// passed it (`passed`, after a restart of the scheduler).
//
// Invariants:
//   Barrier.B1. Members count by node id: one that enters twice counts once, and both entries are answered when the
//       round ends. Beyond REPEATS_MAX entries of one node the oldest is given up, which bounds what a node makes us
//       keep.
//   Barrier.B2. A round ends exactly when each member that has not left has entered it.
//   Barrier.B3. Nobody waits while a member of the group is dead: all entries fail at once, naming the dead. Entries
//       that outlive deaths are the exception: they wait until the dead have come back and entered, or count as having
//       left. A dead node's own entries are gone.
//       A node whose rank goes on in another process (`replaced`) is not dead: its own entries are gone, and the others
//       wait for its successor.
//   Barrier.B4. The number of the last round that ended never decreases.

import { badArgument, WeighbridgeError } from "../base/errors.ts";
import { GROUP_MAX, Group, inGroup, nameOf, type Role } from "../wire/node-id.ts";
import type { NodeState } from "../wire/roster.ts";

export type BarrierMember = { readonly node: number; readonly role: Role; readonly state: NodeState };

/** `caller` is whatever the owner of the barriers needs to answer the entry. */
export type BarrierEntry<T> = {
  readonly group: number;
  readonly customer: number;
  readonly node: number;
  /** The round it wants to pass; 0: whichever is next. */
  readonly round: number;
  /** See Barrier.B3. */
  readonly outlivesDeaths?: boolean | undefined;
  readonly caller: T;
};

/** `outcome` is the round that ended, or why the entry failed. */
export type SettledEntry<T> = { readonly caller: T; readonly outcome: number | WeighbridgeError };

/** As many as the frame header has room for; it bounds what a peer can make us remember. */
const CUSTOMER_MAX = 0xffff;

/** A correct node has one entry open, and a few more if its links broke at bad moments. */
const REPEATS_MAX = 16;

/** Where a node stands, and everybody on it that waits for the answer, the latest last. */
type Standing<T> = { readonly round: number; readonly outlivesDeaths: boolean; readonly callers: readonly T[] };

type BarrierState<T> = {
  readonly group: number;
  readonly customer: number;
  readonly entries: Map<number, Standing<T>>;
  lastRound: number;
};

export class Barriers<T> {
  readonly #members: () => readonly BarrierMember[];
  readonly #states = new Map<string, BarrierState<T>>();

  /** `members` lists all members of the job, the scheduler included. */
  constructor(members: () => readonly BarrierMember[]) {
    this.#members = members;
  }

  /** Throws if the node must not enter this barrier. */
  enter(entry: BarrierEntry<T>): SettledEntry<T>[] {
    const problem = this.#problemWith(entry);
    if (problem !== undefined) throw problem;
    const state = this.#stateOf(entry);
    if (entry.round !== 0 && entry.round <= state.lastRound) return [{ caller: entry.caller, outcome: entry.round }];
    const settled: SettledEntry<T>[] = [];
    if (entry.round > state.lastRound + 1) settled.push(...this.#catchUp(state, entry.round - 1));
    const callers = [...(state.entries.get(entry.node)?.callers ?? []), entry.caller];
    // Barrier.B1
    for (const caller of callers.splice(0, callers.length - REPEATS_MAX)) settled.push({ caller, outcome: superseded(entry) });
    state.entries.set(entry.node, { round: entry.round, outlivesDeaths: entry.outlivesDeaths === true, callers });
    settled.push(...this.#review(state));
    return settled;
  }

  /** The nodes that stand at this barrier with entries that outlive deaths. */
  lasting({ group, customer }: { readonly group: number; readonly customer: number }): ReadonlySet<number> {
    const entries = [...(this.#states.get(`${group}/${customer}`)?.entries ?? [])];
    return new Set(entries.filter(([, { outlivesDeaths }]) => outlivesDeaths).map(([node]) => node));
  }

  /** Whether nodes stand at this barrier with entries that do not outlive deaths. */
  hasStanding(barrier: { readonly group: number; readonly customer: number }): boolean {
    const standing = this.#states.get(`${barrier.group}/${barrier.customer}`)?.entries.size ?? 0;
    return standing > this.lasting(barrier).size;
  }

  /** The number of the last round of this barrier that ended; 0: none has. */
  lastRound({ group, customer }: { readonly group: number; readonly customer: number }): number {
    return this.#states.get(`${group}/${customer}`)?.lastRound ?? 0;
  }

  /** A node reports that it passed this round: it is over for everybody. Ignores what cannot be. */
  passed(barrier: Omit<BarrierEntry<T>, "caller">): SettledEntry<T>[] {
    if (this.#problemWith(barrier) !== undefined) return [];
    const state = this.#stateOf(barrier);
    return barrier.round > state.lastRound ? this.#catchUp(state, barrier.round) : [];
  }

  /**
   * The node is dead, or its incarnation is over: entries that wait for it fail (Barrier.B3). So does its own: a node
   * that was only silent must learn that its entry is gone.
   */
  died(node: number): SettledEntry<T>[] {
    const member = this.#members().find((candidate) => candidate.node === node);
    if (member === undefined) return [];
    const concerned = [...this.#states.values()].filter(({ group }) => inGroup(member.role, group));
    return concerned.flatMap((state) => failAll(state, [node]));
  }

  /**
   * This incarnation of the node is over, and its rank goes on in another process, which enters by itself (Barrier.B3).
   */
  replaced(node: number): SettledEntry<T>[] {
    return [...this.#states.values()].flatMap((state) => {
      const entry = state.entries.get(node);
      state.entries.delete(node);
      return entry === undefined ? [] : settledAlike(entry.callers, diedError([node], state));
    });
  }

  /** The membership changed: some rounds may be over now, or never will be. */
  review(): SettledEntry<T>[] {
    return [...this.#states.values()].flatMap((state) => this.#review(state));
  }

  /** Fails all entries. */
  failAll(error: WeighbridgeError): SettledEntry<T>[] {
    const entries = [...this.#states.values()].flatMap((state) => [...state.entries.values()]);
    this.#states.clear();
    return entries.flatMap(({ callers }) => settledAlike(callers, error));
  }

  #problemWith({ group, customer, node }: Omit<BarrierEntry<T>, "caller">): WeighbridgeError | undefined {
    if (group < 1 || group > GROUP_MAX) return badArgument(`there is no group ${group} to have a barrier`);
    if (customer > CUSTOMER_MAX) return badArgument(`customer ${customer} is above ${CUSTOMER_MAX}`);
    const member = this.#members().find((candidate) => candidate.node === node);
    if (member === undefined || member.state === "left") return new WeighbridgeError("NO_ROUTE", `${nameOf(node)} is not in this job`);
    if (inGroup(member.role, group)) return undefined;
    return badArgument(`${nameOf(node)} entered the barrier of group ${group}, of which it is no member`);
  }

  #stateOf({ group, customer }: Omit<BarrierEntry<T>, "caller">): BarrierState<T> {
    const name = `${group}/${customer}`;
    let state = this.#states.get(name);
    if (state === undefined) {
      state = { group, customer, entries: new Map(), lastRound: 0 };
      this.#states.set(name, state);
    }
    return state;
  }

  /** Rounds up to this one ended before we knew of them: an entry for one of them missed the answer. */
  #catchUp(state: BarrierState<T>, lastRound: number): SettledEntry<T>[] {
    state.lastRound = lastRound; // Barrier.B4: only called with a higher one
    const settled: SettledEntry<T>[] = [];
    for (const [node, { round, callers }] of state.entries) {
      if (round === 0 || round > lastRound) continue;
      state.entries.delete(node);
      settled.push(...settledAlike(callers, round));
    }
    return settled;
  }

  #review(state: BarrierState<T>): SettledEntry<T>[] {
    const { group, entries } = state;
    if (entries.size === 0) return [];
    const members = this.#members().filter(({ role }) => inGroup(role, group));
    const settled: SettledEntry<T>[] = [];
    for (const { node, state } of members) {
      const entry = state === "left" ? entries.get(node) : undefined;
      if (entry === undefined) continue;
      entries.delete(node); // the next holder of its rank enters by itself
      settled.push(...settledAlike(entry.callers, new WeighbridgeError("ABORTED", `${nameOf(node)} left the job`)));
    }
    const counted = members.filter(({ state }) => state !== "left");
    const dead = counted.filter(({ state }) => state === "dead").map(({ node }) => node);
    if (dead.length > 0) settled.push(...failAll(state, dead));
    if (entries.size === 0 || counted.some(({ node }) => !entries.has(node))) return settled;
    const outcome = ++state.lastRound;
    for (const { callers } of entries.values()) settled.push(...settledAlike(callers, outcome));
    entries.clear();
    return settled;
  }
}

function failAll<T>(state: BarrierState<T>, dead: readonly number[]): SettledEntry<T>[] {
  const { entries } = state;
  const outcome = diedError(dead, state);
  const settled: SettledEntry<T>[] = [];
  for (const [node, { outlivesDeaths, callers }] of entries) {
    if (outlivesDeaths && !dead.includes(node)) continue;
    entries.delete(node);
    settled.push(...settledAlike(callers, outcome));
  }
  return settled;
}

/** The first barrier of all nodes is that of the start: what to do then is told to whoever started them. */
function diedError<T>(dead: readonly number[], { group, customer, lastRound }: BarrierState<T>): WeighbridgeError {
  const who = dead.map(nameOf).join(", ");
  const isStart = group === Group.ALL && customer === 0 && lastRound === 0;
  const message = isStart
    ? `the job could not start: ${who} died before all nodes had started; see its log, then start all nodes again`
    : `${who} died before all nodes of group ${group} had come to the barrier; enter it again once ${who} was restarted`;
  return new WeighbridgeError("NODE_DEAD", message, { retryable: true });
}

function settledAlike<T>(callers: readonly T[], outcome: number | WeighbridgeError): SettledEntry<T>[] {
  return callers.map((caller) => ({ caller, outcome }));
}

function superseded({ node, group }: BarrierEntry<unknown>): WeighbridgeError {
  const message = `${nameOf(node)} entered the barrier of group ${group} ${REPEATS_MAX} more times while it stood there`;
  return new WeighbridgeError("ABORTED", message, { retryable: true });
}

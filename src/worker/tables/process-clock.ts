// process-clock — the clocks of the threads of a process, and their minimum, which is the clock of the process: what
// servers know of it. Pure.
//
// Invariants:
//   ProcessClock.M1. The minimum never falls. A thread that comes late begins there.
//   ProcessClock.M2. A thread that leaves is not waited for. Without threads the minimum stays where the highest of
//       them stood.

export type ClockMember = { clock: number };

export class ProcessClock {
  readonly #members = new Set<ClockMember>();
  /** The clock of the slowest thread. */
  min: number;

  /** `start`: where the process joins the others. */
  constructor(start: number) {
    this.min = start;
  }

  get memberCount(): number {
    return this.#members.size;
  }

  has(member: ClockMember): boolean {
    return this.#members.has(member);
  }

  join(): ClockMember {
    const member = { clock: this.min };
    this.#members.add(member);
    return member;
  }

  /** A thread has ended its clock. Returns by how many clocks the minimum rose. */
  advance(member: ClockMember): number {
    member.clock++;
    return member.clock - 1 === this.min ? this.#settle() : 0;
  }

  /** ProcessClock.M2. As `advance`. */
  leave(member: ClockMember): number {
    this.#members.delete(member);
    return this.#members.size === 0 ? 0 : this.#settle();
  }

  #settle(): number {
    const before = this.min;
    let lowest = Infinity;
    for (const { clock } of this.#members) lowest = Math.min(lowest, clock);
    this.min = lowest;
    return lowest - before;
  }
}

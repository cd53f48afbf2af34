// busy-loop — what the scheduler knows of the event loop of a node whose pulse speaks for it (cluster/pulse.ts): since
// when it has been busy, and what of that is told. Pure; roster.ts keeps one in each slot.
//
//   turns ── a pulse says that it is busy ──► busy ── for longer than the heartbeat timeout ──► long, told
//     ▲                                         │                                                 │
//     └──────────── anything of the loop itself ◄─────────────────────────────────────────────────┘
//
// Invariants:
//   BusyLoop.L1. A loop has been busy since it was heard last, at most: a pulse that comes late does not say more.
//   BusyLoop.L2. A node whose every step is long does not fill the log: after a loop that was busy for n ms was told,
//       only one that is busy for 2n ms is told again.

export class BusyLoop {
  /** When something of the loop itself came last. */
  #turnedAtMs: number;
  /** Undefined: it turns. */
  #busySinceMs: number | undefined;
  /** Whether it was told in this time. */
  #isTold = false;
  #toldFromMs = 0;

  constructor(nowMs = 0) {
    this.#turnedAtMs = nowMs;
  }

  get isBusy(): boolean {
    return this.#busySinceMs !== undefined;
  }

  /** For how long it has been busy; 0 if it turns. */
  busyMs(nowMs: number): number {
    return this.#busySinceMs === undefined ? 0 : nowMs - this.#busySinceMs;
  }

  /** Something of the loop itself came. Returns for how long it had been busy, if that was told. */
  turned(nowMs: number): number | undefined {
    const busyMs = this.#isTold ? this.busyMs(nowMs) : undefined;
    this.#turnedAtMs = nowMs;
    this.#busySinceMs = undefined;
    this.#isTold = false;
    return busyMs;
  }

  /** A pulse says that it has been busy for so long. `isLong`: that is to be told (BusyLoop.L2). */
  busy(loopBusyMs: number, nowMs: number, heartbeatTimeoutMs: number): { readonly busyMs: number; readonly isLong: boolean } {
    this.#busySinceMs = Math.max(nowMs - loopBusyMs, this.#turnedAtMs); // BusyLoop.L1
    const busyMs = this.busyMs(nowMs);
    const isLong = !this.#isTold && busyMs >= Math.max(heartbeatTimeoutMs, this.#toldFromMs);
    if (isLong) {
      this.#isTold = true;
      this.#toldFromMs = 2 * busyMs;
    }
    return { busyMs, isLong };
  }
}

// silence-verdicts — when the silence of a node, or its closed link, may be taken for its death. A scheduler that hears
// of no node suspects itself: it may be cut off, or may have been stopped. Pure: events, the time and the counted nodes
// in, who may be judged out. roster.ts asks before it takes a node for dead; which silence is too long is not decided
// here (rank-slot.ts, chains.ts, guests.ts).
//
//             all are silent, or most fell silent together
//   judging ──────────────────────────────────────────► doubting ── a sign of life ──► waiting ── a timeout ──► judging
//        └──────────────── the scheduler was held up ─────────────────────────────────────▲
//   doubting ── lasts for too long (SilenceVerdicts.S2, SilenceVerdicts.S6) ──► judging
//
// Invariants:
//   SilenceVerdicts.S1. With COUNTED_MIN counted nodes or more, if none of them was heard lately, nobody is judged
//       before the first sign of life.
//   SilenceVerdicts.S2. If more than half of them fell silent within one heartbeat, nobody is judged for two timeouts
//       more. A node that was heard lately and lost its link is none of them: it is judged at once.
//   SilenceVerdicts.S3. Nobody is judged for one timeout after the first sign of life that ends such a doubt, or a
//       silence of all for half a timeout, and after a tick that is late by a heartbeat (a process that was stopped, as
//       by SIGSTOP): nodes that have noticed connect again meanwhile.
//   SilenceVerdicts.S4. Doubting and waiting hold for all nodes, guests too, and for closed links as for silence.
//   SilenceVerdicts.S5. A node that was silent before a doubt or a wait began is judged when that ends. Neither
//       the doubt of SilenceVerdicts.S2 nor a late tick spares it again: a scheduler that is held up repeatedly judges
//       in the end.
//   SilenceVerdicts.S6. If all counted nodes have closed links, and nothing listens at the addresses of the servers any
//       more, their processes may be gone: the doubt of SilenceVerdicts.S1 then lasts until two timeouts after that was
//       known of the last one.
//   SilenceVerdicts.S7. A node that registers is a sign of life. The doubt of SilenceVerdicts.S1 does not begin
//       while one that registered during the silence waits for a rank: the scheduler is reached, and the newcomer may
//       need the rank of a dead node.
//   SilenceVerdicts.S8. Without heartbeats nothing is doubted: only closed links count then.

/** With fewer nodes, silence says nothing of the scheduler's own connection: the others may be dead. */
const COUNTED_MIN = 3;
/** A node that was not heard for this many heartbeats has missed one. */
const BEATS_SILENT = 1.5;
const DOUBT_TIMEOUTS = 2;
/** Part of the timeout: the silence of all after which some may be late in coming back. */
const LONG_SILENCE = 0.5;

export type SilenceRules = { readonly heartbeatIntervalMs: number; readonly heartbeatTimeoutMs: number };

/** What is known of a counted node: one that is alive, and was heard by this scheduler. */
export type Hearing = {
  readonly heardAtMs: number;
  /** Since when its process may be gone (SilenceVerdicts.S6); undefined: nothing says so. */
  readonly goneSinceMs: number | undefined;
};

/** `counted` is asked for only where it matters: a heartbeat costs no look at all nodes. */
export type HearingNow = {
  readonly nowMs: number;
  /** Guests are none of them. */
  readonly counted: () => readonly Hearing[];
  /** When the last node registered that waits for a rank; -Infinity: none waits. */
  readonly registeredAtMs: () => number;
};

/** Whose silence makes the scheduler doubt that it reaches the nodes, and since when they are silent. */
export type Doubt = { readonly of: "all" | "most"; readonly silentSinceMs: number };

type Pause = {
  readonly cause: Doubt["of"] | "return" | "late";
  readonly sinceMs: number;
  readonly silentSinceMs: number;
  /** Of "all" it is computed instead (SilenceVerdicts.S6). */
  readonly untilMs: number;
};

export class SilenceVerdicts {
  readonly #timeoutMs: number;
  readonly #silentMs: number;
  readonly #lateMs: number;
  /** When any counted node was heard last. */
  #heardAtMs = Infinity;
  /** The doubt or wait of now, or the last one. */
  #pause: Pause | undefined;
  /** A silence from before this moment was spared by an earlier one (SilenceVerdicts.S5). */
  #sparedBeforeMs = -Infinity;

  constructor({ heartbeatIntervalMs, heartbeatTimeoutMs }: SilenceRules) {
    this.#timeoutMs = heartbeatTimeoutMs;
    this.#silentMs = Math.min(BEATS_SILENT * heartbeatIntervalMs, heartbeatTimeoutMs / 2);
    this.#lateMs = Math.min(heartbeatIntervalMs, heartbeatTimeoutMs / 4);
  }

  /** Whether closed links say nothing now (SilenceVerdicts.S4). */
  isPaused(now: HearingNow): boolean {
    return this.#pauseAt(now) !== undefined;
  }

  /** Undefined: the scheduler does not suspect itself. */
  doubt(now: HearingNow): Doubt | undefined {
    const pause = this.#pauseAt(now);
    if (pause?.cause !== "all" && pause?.cause !== "most") return undefined;
    return { of: pause.cause, silentSinceMs: pause.silentSinceMs };
  }

  /** A counted node was heard that was last heard at `heardAtMs`. Returns the doubt that this ends. */
  heard(heardAtMs: number, now: HearingNow): Doubt | undefined {
    const doubt = this.doubt(now);
    const { nowMs } = now;
    const untilMs = nowMs + this.#timeoutMs;
    const silentSinceMs = this.#heardAtMs;
    this.#heardAtMs = nowMs;
    const wereAllSilent = nowMs - silentSinceMs >= LONG_SILENCE * this.#timeoutMs && this.#mayDoubt(now);
    if (doubt === undefined && wereAllSilent && !this.isPaused(now))
      this.#begin({ cause: "return", sinceMs: nowMs, silentSinceMs, untilMs }, now);
    if (doubt === undefined || (doubt.of === "most" && nowMs < heardAtMs + this.#timeoutMs)) return undefined;
    this.#wait(untilMs);
    return doubt;
  }

  /** A node has registered, no guest (SilenceVerdicts.S7). Returns the doubt that this ends. */
  registered(now: HearingNow): Doubt | undefined {
    const doubt = this.doubt(now);
    if (doubt?.of !== "all") return undefined;
    this.#wait(now.nowMs + this.#timeoutMs);
    return doubt;
  }

  /** Silence is judged now, this much later than it should be (SilenceVerdicts.S3). */
  tick(lateMs: number, now: HearingNow): void {
    if (this.#timeoutMs === 0 || lateMs < this.#lateMs) return;
    const { nowMs } = now;
    const [pause, untilMs] = [this.#pauseAt(now), nowMs + this.#timeoutMs];
    if (pause === undefined) this.#begin({ cause: "late", sinceMs: nowMs, silentSinceMs: nowMs, untilMs }, now);
    else if (pause.cause === "most") this.#pause = { ...pause, untilMs: Math.max(pause.untilMs, untilMs) };
  }

  /**
   * From when a node that was last heard then may be judged, as far as is known now: -Infinity, or the end of a doubt
   * or a wait.
   */
  notBeforeMs(heardAtMs: number, now: HearingNow): number {
    const pause = this.#pauseAt(now);
    // SilenceVerdicts.S5
    const wasSpared = (pause?.cause === "most" || pause?.cause === "late") && heardAtMs < this.#sparedBeforeMs;
    return pause === undefined || wasSpared ? -Infinity : this.#endOf(pause, now);
  }

  /**
   * Whether a node that was last heard then is dead: it is silent for too long, or has lost its link. If not, a doubt
   * may begin here.
   */
  mayJudge(heardAtMs: number, now: HearingNow): boolean {
    const { nowMs } = now;
    if (nowMs < this.notBeforeMs(heardAtMs, now)) return false;
    const doubt = this.#doubtOf(heardAtMs, now);
    if (doubt === undefined) {
      // Over for good, though nodes may connect now (SilenceVerdicts.S6).
      if (this.#pause?.cause === "all") this.#wait(nowMs);
      return true;
    }
    const { of, silentSinceMs } = doubt;
    this.#begin({ cause: of, sinceMs: nowMs, silentSinceMs, untilMs: nowMs + DOUBT_TIMEOUTS * this.#timeoutMs }, now);
    return false;
  }

  #doubtOf(heardAtMs: number, now: HearingNow): Doubt | undefined {
    if (!this.#mayDoubt(now)) return undefined;
    const counted = now.counted();
    // SilenceVerdicts.S5
    const wasSpared = heardAtMs < Math.max(this.#sparedBeforeMs, this.#pause?.sinceMs ?? -Infinity);
    const isSilent = (node: Pick<Hearing, "heardAtMs">): boolean => now.nowMs - node.heardAtMs >= this.#silentMs;
    const lastMs = Math.max(...counted.map((node) => node.heardAtMs));
    const isThere = counted.some(({ goneSinceMs }) => goneSinceMs === undefined);
    const hasRegistered = now.registeredAtMs() >= lastMs + this.#silentMs; // SilenceVerdicts.S7
    // SilenceVerdicts.S1, SilenceVerdicts.S6
    if (counted.every(isSilent) && !hasRegistered && (isThere || !wasSpared)) return { of: "all", silentSinceMs: lastMs };
    const isWithIt = (node: Hearing): boolean => isSilent(node) && Math.abs(node.heardAtMs - heardAtMs) <= this.#silentMs;
    const areMost = isSilent({ heardAtMs }) && counted.filter(isWithIt).length > counted.length / 2;
    return areMost && !wasSpared ? { of: "most", silentSinceMs: heardAtMs } : undefined; // SilenceVerdicts.S2
  }

  /** SilenceVerdicts.S8 */
  #mayDoubt(now: HearingNow): boolean {
    return this.#timeoutMs > 0 && now.counted().length >= COUNTED_MIN;
  }

  #begin(pause: Pause, now: HearingNow): void {
    if (this.#pauseAt(now) === undefined) this.#sparedBeforeMs = this.#pause?.sinceMs ?? -Infinity;
    this.#pause = pause;
  }

  /** SilenceVerdicts.S3: nodes have this long to be heard. */
  #wait(untilMs: number): void {
    if (this.#pause !== undefined) this.#pause = { ...this.#pause, cause: "return", untilMs };
  }

  #pauseAt(now: HearingNow): Pause | undefined {
    return this.#pause !== undefined && now.nowMs < this.#endOf(this.#pause, now) ? this.#pause : undefined;
  }

  #endOf({ cause, sinceMs, untilMs }: Pause, now: HearingNow): number {
    if (cause !== "all") return untilMs;
    const goneAtMs = now.counted().map(({ goneSinceMs }) => goneSinceMs ?? Infinity);
    return Math.max(sinceMs, ...goneAtMs) + DOUBT_TIMEOUTS * this.#timeoutMs; // SilenceVerdicts.S6
  }
}

// roster-stage — a Roster of two servers and two workers at a time that a test sets, whose decisions read as words.

import { Roster } from "../scheduler/roster.ts";
import type { Decision, RosterRules } from "../scheduler/roster-decision.ts";
import { StateJournal } from "../scheduler/state-journal.ts";
import type { LeaveRequest } from "../wire/control.ts";
import type { CopyClaim, RegisterRequest, ResumeClaim } from "../wire/register.ts";
import type { RosterView } from "../wire/roster.ts";

const RULES: RosterRules = {
  serverCount: 2,
  workerCount: 2,
  heartbeatIntervalMs: 1000,
  heartbeatTimeoutMs: 5000,
  startTimeoutMs: 60_000,
};

/** A roster at time 0 whose callers are names; `s0`, `w1` and the like register under those. */
export class RosterStage {
  readonly roster: Roster<string>;
  readonly journal: StateJournal = new StateJournal();
  nowMs = 0;
  readonly #replicas: number;

  constructor(rules: Partial<RosterRules> = {}) {
    this.#replicas = rules.replicas ?? 1;
    const { journal } = this;
    journal.write({ kind: "start", job: "job/new", term: 1, serverCount: 2, workerCount: 2 });
    this.roster = new Roster({ rules: { ...RULES, ...rules }, journal, jobId: "job/new" });
    this.roster.open(0, { isFound: false });
  }

  register(name: string, request: Partial<RegisterRequest> = {}): string[] {
    const copy = this.#replicas > 1 && !name.startsWith("w") ? copyOf(name, this.#replicas) : undefined;
    return texts(this.roster.register(requestOf(name, { copy, ...request }), name, this.nowMs));
  }

  /** What a node of the old job says to a scheduler that was restarted. */
  resume(name: string, claim: Partial<ResumeClaim> & Pick<ResumeClaim, "node">, request: Partial<RegisterRequest> = {}): string[] {
    const resume: ResumeClaim = { job: "job/old", incarnation: 1, roster: OLD_ROSTER, passed: [], ...claim };
    return this.register(name, { ...request, resume });
  }

  tick(toMs: number, { lateMs = 0 }: { readonly lateMs?: number } = {}): string[] {
    this.nowMs = toMs;
    return texts(this.roster.tick(toMs, lateMs));
  }

  heard(node: number, incarnation = 1): string[] {
    return texts(this.roster.heard(node, incarnation, this.nowMs));
  }

  /** The pulse of a node says that its loop has been busy for so long. */
  pulse(node: number, loopBusyMs: number, incarnation = 1): string[] {
    return texts(this.roster.pulse(node, incarnation, loopBusyMs, this.nowMs));
  }

  linkDown(node: number, incarnation = 1): string[] {
    return texts(this.roster.linkDown(node, incarnation, this.nowMs));
  }

  linkUp(node: number, incarnation = 1): string[] {
    return texts(this.roster.linkUp(node, incarnation, this.nowMs));
  }

  leave(node: number, incarnation = 1, request: LeaveRequest = {}): string[] {
    return texts(this.roster.leave(node, incarnation, this.nowMs, request));
  }

  /** The journal was written to. */
  review(): string[] {
    return texts(this.roster.review(this.nowMs));
  }

  dueMs(): number {
    return this.roster.dueMs(this.nowMs);
  }

  /** "8 alive 1" and so on. */
  states(): string[] {
    return this.roster.view().nodes.map(({ node, state, incarnation }) => `${node} ${state} ${incarnation}`);
  }

  formed(): this {
    for (const [rank, name] of ["s0", "s1", "w0", "w1"].entries()) this.register(name, { rank: rank % 2 });
    return this;
  }

  /** Until then everybody but these nodes sends its heartbeats. */
  beatTo(toMs: number, ...silent: number[]): void {
    while (this.nowMs < toMs) {
      this.nowMs = Math.min(toMs, this.nowMs + 1000);
      this.hearAllBut(...silent);
    }
  }

  /** All links close, and none of the four nodes comes back (SilenceVerdicts.S6). */
  allDie(): void {
    for (const node of [8, 9, 10, 11]) this.linkDown(node);
    this.tick(this.nowMs + 5000);
    this.tick(this.nowMs + 10_000);
  }

  /** Everybody but these nodes has just been heard of. */
  hearAllBut(...silent: number[]): void {
    for (const node of [8, 9, 10, 11]) if (!silent.includes(node)) this.heard(node);
  }
}

/** A process of its own on a machine of its own. */
export function copyOf(name: string, replicas = 2): CopyClaim {
  return { replicas, host: `host of ${name}`, process: name, settings: [] };
}

export function requestOf(name: string, request: Partial<RegisterRequest>): RegisterRequest {
  const role = name.startsWith("s") ? "server" : "worker";
  const address = role === "server" ? `memory://${name}` : "";
  return { role, rank: undefined, address, serverCount: 2, workerCount: 2, label: name, token: name, resume: undefined, ...request };
}

/** What four nodes of an old job remember of it. */
export const OLD_ROSTER: RosterView = {
  version: 7,
  nodes: [9, 11, 8, 10].map((node) => ({
    node,
    role: node % 2 === 0 ? ("server" as const) : ("worker" as const),
    rank: (node - 8) >> 1,
    address: node % 2 === 0 ? `memory://old-${node}` : "",
    incarnation: 1,
    state: "alive" as const,
    label: `old-${node}`,
  })),
};

/** Decisions as a test reads them: "admit w0 as 9/1", "died 10". */
export function texts(decisions: readonly Decision<string>[]): string[] {
  return decisions.map((decision) => {
    switch (decision.kind) {
      case "admit":
        return `admit ${decision.caller} as ${decision.node}/${decision.incarnation}${decision.recovery ? " recovery" : ""}`;
      case "refuse":
        return `refuse ${decision.caller} ${decision.error.code}`;
      case "died":
        return `died ${decision.node}`;
      case "busy":
      case "turns":
        return `${decision.kind} ${decision.node} ${decision.busyMs}`;
      case "fail":
        return `fail ${decision.error.code}`;
      default:
        return decision.kind;
    }
  });
}

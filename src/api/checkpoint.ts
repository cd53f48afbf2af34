// checkpoint — takes and restores checkpoints of a whole cluster, for every caller that reaches the servers: a worker's
// session, the command line. The servers freeze, write and read; this file calls them in order, compares their answers,
// and gives up on all of them when one fails.
//
//   cut (all frozen) ──► begin ──► write (all written) ──► commit            load (all loaded) ──► activate
//
// Invariants:
//   Checkpoint.C1. A checkpoint exists with the commit, whole, or not at all: a failure on the way removes what was
//       written, and touches no earlier one.
//   Checkpoint.C2. All servers cut at one clock (spec/consistency.md, D1 to D3). The cut is requested first and at
//       once, so that what its caller does next comes after it.
//   Checkpoint.C3. A checkpoint is restored by all servers, or by none.
//   Checkpoint.C4. No checkpoint is taken of servers that do not have the same parameters: one that was restarted has
//       lost its share, and what is saved without it must not take the place of a checkpoint that is whole. A parameter
//       that is just being made is left out: it is in the next one. One that is cleared after the cut is in; one that
//       was cleared on some servers before their cut, and on others after, is not. A server that was restarted without
//       the sums of an earlier incarnation refuses the cut itself (CheckpointService.V10).
//   Checkpoint.C5. A worker never waits for a clock that it has to end itself: no cut above its own clock is requested
//       in its name.
//   Checkpoint.C6. No checkpoint is taken of servers that made their cuts in different epochs of the placement: a part
//       that moved in between would be in it twice, or not at all. Servers make them in one epoch
//       (CheckpointService.V8); if servers have come or left meanwhile, the cut is made again on those there are now.

import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, isWeighbridgeError, reasonOf, showValue, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import { didYouMean } from "../base/nearest-name.ts";
import * as contracts from "../contracts/checkpoints.ts";
import type { Contract } from "../contracts/contract.ts";
import { PART_COUNT } from "../keys/part.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { type JsonObject, jsonObject } from "../wire/json-value.ts";

/** The way to the servers' checkpoint services. */
export type ServerCalls = {
  /** The ranks of all servers, ascending. The first one makes and commits the directory of a checkpoint. */
  readonly servers: readonly number[];
  /** Rejects with what the server threw. `timeoutMs`: instead of what else bounds the call. */
  call<Q extends Fields, R extends Fields>(
    server: number,
    fn: Contract<Q, R>,
    request: FieldValues<Q>,
    timeoutMs?: number,
  ): Promise<FieldValues<R>>;
};

/** How a checkpoint is taken; `timeoutMs` and `signal` bound each of its steps, the wait for the cut's clock first. */
export type CheckpointOptions = WaitOptions & {
  /** Its number, higher than that of every other. Left out: the clock of the cut, or the next free number. */
  readonly step?: number | undefined;
  /** The cut: every update of an earlier clock is in. For a session its own clock, when left out. */
  readonly clock?: number | undefined;
  /** The job's name, as `inspect` shows it. */
  readonly job?: string | undefined;
  /** What the job needs to resume from here: kept word for word in the manifest, as `state.note`. */
  readonly note?: JsonObject | undefined;
  /** How many checkpoints to keep, this one included; all when left out. */
  readonly keep?: number | undefined;
};

/** A checkpoint that is being taken. Neither promise crashes the process when it rejects before it is awaited. */
export type Checkpoint = {
  /**
   * Resolves when every server has its part of the cut: nothing that is pushed from then on is in the checkpoint, and
   * training may continue. Rejects as `saved` does if there is no cut. Reading this property makes the cut final: for a
   * caller that takes `saved` alone it is repeated when parameters come and go meanwhile.
   */
  readonly cut: Promise<void>;
  /** Resolves when the checkpoint is written, whole. */
  readonly saved: Promise<TakenCheckpoint>;
};

/** One parameter, saved apart from the job's checkpoints, in a directory below theirs. */
export type SaveOptions = { readonly parameter: string; readonly directory: string };

/** Which checkpoint is restored, and how long to wait for it. */
export type RestoreOptions = WaitOptions & {
  /** The number of the checkpoint; the newest when left out. */
  readonly step?: number | undefined;
};

/** A checkpoint that is complete. */
export type TakenCheckpoint = {
  /** Its number. */
  readonly step: number;
  /** The clock of its cut: every update of an earlier clock is in it. */
  readonly clock: number;
  /** Its directory, as the first server names it. */
  readonly path: string;
  /** A failure after it was complete. */
  readonly warning: string | undefined;
};

/** What was restored. */
export type RestoredCheckpoint = Omit<TakenCheckpoint, "warning"> & {
  /** The names of its parameters. */
  readonly parameters: readonly string[];
  /** The tables of what the kv face and pushData had added up, as `checkpoint inspect` names them. */
  readonly sums: readonly string[];
  /** All servers had restored it before: nothing was loaded now. */
  readonly wasRestored: boolean;
};

const { checkpointSave: save } = contracts;
const CHECKPOINT_NAMES: readonly string[] = ["step", "clock", "job", "note", "keep", ...WAIT_NAMES];
const JOB_DEFAULT = "weighbridge";
/** How many clocks ahead of the slowest worker the cut may move for a caller that names no clock. */
const AHEAD_MAX = 1000;
/** A parameter that a server lacks in this many surveys is lost; making one takes a round trip. */
const LOOKS_MAX = 20;
/**
 * How often a cut is made anew because parameters were cleared and made, or servers came or left, while it was made.
 */
const CUTS_MAX = 64;
/** How long servers are asked what a cut waits for. */
const EXPLAIN_MS = 1000;

/** Throws BAD_ARGUMENT, before any server stops for a cut. */
export function checkCheckpointOptions(options: CheckpointOptions): CheckpointOptions {
  checkWaitOptions(options, CHECKPOINT_NAMES, "the options of a checkpoint");
  checkStep("step", options.step);
  checkStep("keep", options.keep);
  const { keep, job, note } = options;
  if (keep === 0) throw badArgument("keep counts this checkpoint too: a whole number from 1 up, not 0");
  if (job !== undefined && typeof job !== "string") throw badArgument(`job is the job's name, a string, not ${showValue(job)}`);
  if (note !== undefined) checkNote(note);
  return options;
}

/** A note is kept word for word. Throws BAD_ARGUMENT for what JSON would change. */
function checkNote(note: unknown): void {
  try {
    jsonObject(note, "note");
  } catch (cause) {
    throw new WeighbridgeError("BAD_ARGUMENT", `a checkpoint keeps a note of plain data: ${reasonOf(cause)}`, { cause });
  }
}

/** A whole number from 0 up, or nothing. Throws BAD_ARGUMENT. */
export function checkStep(what: string, step: number | undefined): void {
  if (step === undefined || (Number.isSafeInteger(step) && step >= 0)) return;
  throw badArgument(`${what} is a whole number from 0 up, not ${showValue(step)}`);
}

type TakeOptions = Omit<CheckpointOptions, keyof WaitOptions> &
  Partial<SaveOptions> & {
    readonly createdAt: string;
    /** Called when every server has its part of the cut: nothing that is pushed from here on is in it. */
    readonly onCut?: (() => void) | undefined;
    /** Whether another cut may be made after `onCut`; left out, if there is no `onCut`. */
    readonly mayCutAgain?: (() => boolean) | undefined;
    /** Checkpoint.C5. The clock of the worker that takes the checkpoint, if it names none. */
    readonly ownClock?: (() => number) | undefined;
    /**
     * Of a job whose workers have all left, and a cut at this clock: the clock that none of them has ended, at which
     * others go on.
     */
    readonly standsAt?: ((cut: number) => number) | undefined;
  };

/**
 * Throws NO_ROUTE without servers, and what the servers throw: QUEUE_FULL while another is being taken, CHECKPOINT_IO,
 * ARENA_FULL, UNSUPPORTED without a directory for it; and WRONG_EPOCH, retryable, when the placement changed between
 * the cuts of two servers, and the clock is over (Checkpoint.C6).
 */
export async function takeCheckpoint(servers: ServerCalls, options: TakeOptions): Promise<TakenCheckpoint> {
  let moved: WeighbridgeError | undefined;
  committerOf(servers);
  for (let left = CUTS_MAX - 1; ; left--) {
    try {
      return await takeOnce(servers, options);
    } catch (thrown) {
      // The clock is over by now.
      if (moved !== undefined && isWeighbridgeError(thrown, "BAD_ARGUMENT") && thrown.retryable) throw moved;
      moved = isWeighbridgeError(thrown, "WRONG_EPOCH") ? thrown : moved;
      // Servers cut on both sides of a change of parameters. For a caller that waited for the cut and has gone on, no
      // other cut can be made.
      const mayCutAgain = options.mayCutAgain?.() ?? options.onCut === undefined;
      const isTransient = isWeighbridgeError(thrown, "UNKNOWN_PARAMETER") && thrown.retryable && mayCutAgain;
      if (!(isTransient || thrown === moved) || left === 0) throw thrown;
    }
  }
}

async function takeOnce(servers: ServerCalls, options: TakeOptions): Promise<TakenCheckpoint> {
  if (options.clock !== undefined) return await takeAt(servers, options.clock, options);
  const { ownClock = () => Infinity } = options;
  for (let ahead = 0; ; ahead = 2 * ahead + 1) {
    const surveys = await callAll(servers, save.survey, {});
    // Checkpoint.C4. Before the cut: a server that has lost its clocks, too, would wait for one that may never come.
    const others = namesNotCommon(surveys);
    if (others.size > 0) await requireNoneLost(servers, others);
    const slowest = Math.max(...surveys.map(({ clockMin }) => clockMin));
    const clock = Math.max(slowest, Math.min(slowest + ahead, ownClock())); // Checkpoint.C5
    try {
      return await takeAt(servers, clock, options);
    } catch (thrown) {
      // Clocks may have ended since the survey.
      if (!isWeighbridgeError(thrown, "BAD_ARGUMENT") || !thrown.retryable || ahead > AHEAD_MAX) throw thrown;
    }
  }
}

async function takeAt(servers: ServerCalls, clock: number, options: TakeOptions): Promise<TakenCheckpoint> {
  const { step: wanted, job = JOB_DEFAULT, note, keep, onCut, createdAt, parameter, directory } = options;
  const standsAt = options.standsAt?.(clock) ?? clock;
  const id = `${createdAt}@${clock}`;
  let pending: string | undefined;
  try {
    const asked = servers.servers;
    // Checkpoint.C2
    const cutting = callAll(servers, save.cut, { id, clock, isWhole: parameter === undefined }, asked);
    const cuts = await cutting.catch(async (thrown: unknown) => {
      throw await explained(servers, thrown);
    });
    requireOnePlacement(cuts, asked, clock); // Checkpoint.C6
    onCut?.();
    const common = commonNames(cuts);
    const others = namesNotCommon(cuts);
    if (others.size > 0) await requireNoneLost(servers, others); // Checkpoint.C4
    const parameters = parameter === undefined ? common : common.filter((name) => name === parameter);
    if (parameter !== undefined && parameters.length === 0)
      throw new WeighbridgeError(
        "UNKNOWN_PARAMETER",
        `there is no parameter ${JSON.stringify(parameter)} to save${didYouMean(parameter, common)}`,
      );
    const begun = await servers.call(committerOf(servers), save.begin, { step: wanted, stepMin: standsAt, directory });
    pending = begun.pending;
    const reports = await callAll(servers, save.write, { ...begun, id, job, parameters }, asked);
    await requireOneOfEach(servers, parameters); // Checkpoint.C4
    const manifest = manifestOf(reports, { job, step: begun.step, clock: standsAt, createdAt, run: cuts[0]?.run ?? "", note });
    const { path, warning } = await servers.call(committerOf(servers), save.commit, { pending, manifest, keep });
    return { step: begun.step, clock: standsAt, path, warning };
  } catch (thrown) {
    await abandon(servers, { id, pending }); // Checkpoint.C1
    throw thrown;
  }
}

/** A DEADLINE names the worker that the cut waits for, if a server says so in time. */
async function explained(servers: ServerCalls, thrown: unknown): Promise<unknown> {
  if (!isWeighbridgeError(thrown, "DEADLINE")) return thrown;
  const surveys = await Promise.allSettled(servers.servers.map((server) => servers.call(server, save.survey, {}, EXPLAIN_MS)));
  const waits = surveys.map((survey) => (survey.status === "fulfilled" ? survey.value.waits : "")).find((text) => text !== "");
  if (waits === undefined) return thrown;
  return new WeighbridgeError("DEADLINE", `${thrown.message}: it waits ${waits}`, { retryable: true, cause: thrown });
}

/** Throws CHECKPOINT_MISSING, _TORN, _FOREIGN, _IO; BAD_ARGUMENT if there are parameters or later clocks. */
export async function restoreCheckpoint(servers: ServerCalls, step?: number): Promise<RestoredCheckpoint> {
  try {
    // One server decides which is the newest, so that all load the same.
    const { isActive, ...loaded } = await servers.call(committerOf(servers), contracts.checkpointLoad, { step });
    const answers = await callAll(servers, contracts.checkpointLoad, { step: loaded.step });
    await callAll(servers, contracts.checkpointActivate, { step: loaded.step });
    return { ...loaded, wasRestored: isActive && answers.every((answer) => answer.isActive) };
  } catch (thrown) {
    await callAll(servers, contracts.checkpointDiscard, {}).catch(() => {}); // Checkpoint.C3: as `abandon`
    throw thrown;
  }
}

/** Loads a saved parameter. Throws as `restoreCheckpoint`, and UNKNOWN_PARAMETER, UNSUPPORTED, nothing changed. */
export async function loadParameter(servers: ServerCalls, { parameter: name, directory }: SaveOptions): Promise<void> {
  const [committer, ...others] = [committerOf(servers), ...servers.servers.slice(1)];
  try {
    const { step } = await servers.call(committer, contracts.parameterStage, { name, directory, step: undefined });
    await callAll(servers, contracts.parameterStage, { name, directory, step }, others); // all load the same
    await callAll(servers, contracts.parameterReplace, { step });
  } catch (thrown) {
    await callAll(servers, contracts.parameterUnstage, {}).catch(() => {}); // Checkpoint.C3: as `abandon`
    throw thrown;
  }
}

/**
 * The first server, which removes the directory, comes last: the others have stopped writing into it then. Failures are
 * ignored: a server that cannot be reached gives up by itself (CheckpointService.V1).
 */
async function abandon(servers: ServerCalls, what: contracts.Abandon): Promise<void> {
  const [committer, ...others] = [committerOf(servers), ...servers.servers.slice(1)];
  for (const ranks of [others, [committer]]) await callAll(servers, save.abandon, what, ranks).catch(() => {});
}

/** Waits for all, also if one fails; throws the first failure, and names its server. */
async function callAll<Q extends Fields, R extends Fields>(
  servers: ServerCalls,
  fn: Contract<Q, R>,
  request: FieldValues<Q>,
  ranks: readonly number[] = servers.servers,
): Promise<FieldValues<R>[]> {
  const outcomes = await Promise.allSettled(ranks.map((server) => servers.call(server, fn, request)));
  return outcomes.map((outcome, i) => {
    const server = ranks[i];
    if (outcome.status === "fulfilled") return outcome.value;
    const { reason } = outcome as { readonly reason: unknown };
    if (!(reason instanceof WeighbridgeError)) throw reason;
    const [name, text] = [`server ${server}: `, reasonOf(reason)];
    const message = text.startsWith(name) ? text : `${name}${text}`; // a remote one names itself
    throw new WeighbridgeError(reason.code, message, { cause: reason, retryable: reason.retryable });
  });
}

/** Throws NO_ROUTE. */
function committerOf({ servers: [first] }: ServerCalls): number {
  if (first !== undefined) return first;
  throw new WeighbridgeError("NO_ROUTE", "there are no servers to take or restore a checkpoint", { retryable: true });
}

/**
 * Checks parameters that some servers had at the cut and others had not. One that is being made or cleared is soon the
 * same everywhere. Throws UNKNOWN_PARAMETER for one that a server still lacks.
 */
async function requireNoneLost(servers: ServerCalls, others: ReadonlySet<string>): Promise<void> {
  let suspects = others;
  for (let look = 1; ; look++) {
    const surveys = await callAll(servers, save.survey, {});
    // Those that were missing in every survey.
    suspects = new Set([...suspects].filter((name) => lostAmong(servers, surveys, new Set([name])) !== undefined));
    if (suspects.size === 0) return;
    const lost = lostAmong(servers, surveys, suspects);
    if (look === LOOKS_MAX && lost !== undefined) throw lost;
  }
}

/**
 * If a parameter is cleared and made anew, some servers may save the old one and others the new one. Throws
 * UNKNOWN_PARAMETER, retryable, in that case.
 */
async function requireOneOfEach(servers: ServerCalls, parameters: readonly string[]): Promise<void> {
  for (let look = 1; ; look++) {
    const gone = (await callAll(servers, save.survey, {})).map(({ gone: names }) => names ?? []);
    const mixed = parameters.find((name) => gone.some((names) => names.includes(name) !== gone[0]?.includes(name)));
    if (mixed === undefined) return;
    const message = `no checkpoint is taken: ${JSON.stringify(mixed)} was dropped and made again, and servers made the cut before and after that`;
    if (look === LOOKS_MAX) throw new WeighbridgeError("UNKNOWN_PARAMETER", message, { retryable: true });
  }
}

function requireOnePlacement(cuts: readonly contracts.Frozen[], asked: readonly number[], clock: number): void {
  const epochs = new Set(cuts.map(({ epoch }) => epoch));
  if (epochs.size === 1 && cuts.every(({ servers }) => String(servers) === String(asked))) return;
  const message = `no checkpoint is taken: parts moved between servers while they made the cut at clock ${clock}`;
  throw new WeighbridgeError("WRONG_EPOCH", `${message}; take it again`, { retryable: true });
}

function lostAmong(
  { servers }: ServerCalls,
  surveys: readonly contracts.Survey[],
  others: ReadonlySet<string>,
): WeighbridgeError | undefined {
  for (const [owner, { names }] of surveys.entries()) {
    for (const [server, { names: known }] of surveys.entries()) {
      const missing = names.find((name) => others.has(name) && !known.includes(name));
      if (missing === undefined) continue;
      const what = `server ${servers[server]} does not have ${JSON.stringify(missing)}, which server ${servers[owner]} has`;
      const why = "it was restarted without its share of a checkpoint, or the parameter is just being made or cleared";
      return new WeighbridgeError("UNKNOWN_PARAMETER", `no checkpoint is taken: ${what}; ${why}`, { retryable: true });
    }
  }
  return undefined;
}

/** What some servers have, and others have not. */
function namesNotCommon(answers: readonly Pick<contracts.Frozen, "names">[]): ReadonlySet<string> {
  const common = commonNames(answers);
  return new Set(answers.flatMap(({ names }) => names.filter((name) => !common.includes(name))));
}

/** What every server has. */
function commonNames([first, ...others]: readonly Pick<contracts.Frozen, "names">[]): readonly string[] {
  return (first?.names ?? []).filter((name) => others.every(({ names }) => names.includes(name)));
}

type Cut = {
  readonly job: string;
  readonly step: number;
  readonly clock: number;
  readonly createdAt: string;
  readonly run: string;
  readonly note: JsonObject | undefined;
};

/** Merges the reports of the servers. The server that writes the manifest checks it (checkpoint-manifest.ts). */
function manifestOf(reports: readonly contracts.Report[], { job, step, clock, createdAt, run, note }: Cut): JsonObject {
  // By name: servers have the same parameters (Checkpoint.C4), and sums of different widths.
  const found = new Map<unknown, JsonObject>();
  for (const record of reports.flatMap((report) => report.parameters)) {
    const known = found.get(record.name);
    const rowsBefore = known === undefined || record.kind === "tensor" ? 0 : Number(known.rowCount);
    found.set(record.name, { ...(known ?? record), rowCount: rowsBefore + Number(record.rowCount) });
  }
  const parameters = [...found.values()].sort((a, b) => Number(a.kind === "sums") - Number(b.kind === "sums"));
  const clocks = new Map<number, number>();
  for (const { workers } of reports) {
    for (const worker of workers) clocks.set(worker.rank, Math.min(worker.clock, clocks.get(worker.rank) ?? Infinity));
  }
  const workers = [...clocks].map(([rank, at]) => ({ rank, clock: at })).sort((a, b) => a.rank - b.rank);
  const servers = reports.map(({ record }) => record);
  const state = note === undefined ? { run } : { run, note };
  return { job, step, clock, createdAt, serverCount: reports.length, partCount: PART_COUNT, parameters, servers, workers, state };
}

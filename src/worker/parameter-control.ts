// parameter-control — what a parameter's handle needs of its session: the worker's clock, the clipping of gradients,
// and changes for everybody.

import { checkNotAborted, checkWait, type WaitOptions } from "../base/deferred.ts";
import { badArgument, isWeighbridgeError, showValue, WeighbridgeError } from "../base/errors.ts";
import { checkOptions, checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import type { ConsistencyMode } from "../consistency/consistency-phases.ts";
import { type ParameterState, parameterClear, parameterConfigure, parameterCreate, parameterState } from "../contracts/parameters.ts";
import { F64_SCAN, type FiniteScan } from "../kernel/finite-scan.ts";
import { floatsOf, type RowElement } from "../kernel/row-element.ts";
import { badField } from "../store/bad-field.ts";
import { type Consistency, engineConsistency } from "../store/consistency.ts";
import { checkChange, encodeMode, encodeStaleness, type ParameterSpec, type Wanted } from "../store/parameter-spec.ts";
import { elementOf } from "../store/row-types/row-type-spec.ts";
import { clipScale, gradientNorm } from "../store/updaters/gradient-norm.ts";
import { resolveSchedule, type ScheduleSpec } from "../store/updaters/learning-rate-schedule.ts";
import type { NonFiniteCounts } from "../store/updaters/updater.ts";
import { count, list, object, oneOf, text } from "../wire/json-body.ts";
import type { CatalogueClient } from "./catalogue-client.ts";
import type { CallWait, FunctionClient } from "./function-client.ts";
import type { CallOptions, ParameterCall, PullOptions, PushPullOptions } from "./parameter.ts";
import { ParameterHandle } from "./parameter-handle.ts";
import { CLOCK_MAX, type PushNumbers } from "./worker-clock.ts";

/** What becomes of a push. */
export type PushAdmission = {
  /** Times every gradient, on the server. */
  readonly scale: number;
  /** Nothing is pushed: its optimizer leaves out what is not finite. */
  readonly skips: boolean;
};

/** Looks at a gradient as it is sent, what belongs to one row made one; `given` is the caller's. Throws NOT_FINITE. */
export type Admit = (gradients: Float32Array, given: Float32Array) => PushAdmission;

/** How gradients are looked at before they are pushed. */
export type PushCheck = {
  /** Whether their norm is bounded. */
  readonly clips: boolean;
  /** Finds what is not finite; undefined where that is pushed like anything else. */
  readonly scan: Pick<FiniteScan, "firstNotFinite"> | undefined;
  /** For those that are clipped, or not finite. */
  readonly admit: Admit;
};

export const AS_IT_IS: PushAdmission = { scale: 1, skips: false };

/** Longer gradients are not looked through here: it would take a seventh of the time of pushing them. */
export const WHOLE_CHECK_FLOATS = 262_144;

/** What may change while training continues. What is left out stays. */
export type ParameterSettings = WaitOptions & {
  /** The rate from now on. */
  readonly learningRate?: number | undefined;
  /** The share of the rate that counts at a clock, from now on. */
  readonly schedule?: ScheduleSpec | undefined;
  /** How many clocks a read may be behind; Infinity: any number. */
  readonly staleness?: number | undefined;
  /** How fresh reads are and when updates count, from a clock on; instead of `staleness`. */
  readonly consistency?: Consistency | undefined;
  /** The clock before which that change does not begin. Left out, it begins as soon as it can. */
  readonly fromClock?: number | undefined;
};

export const CALL_NAMES: readonly string[] = [...WAIT_NAMES, "priority"];
const SETTING_NAMES: readonly string[] = ["learningRate", "schedule", "staleness", "consistency", "fromClock", ...WAIT_NAMES];
const PULL_NAMES: readonly string[] = [...CALL_NAMES, "clocksAhead", "into"];
const PUSH_PULL_NAMES: readonly string[] = [...CALL_NAMES, "into"];

/** What a call says of an array where its options belong. */
const INTO_MOVED: Readonly<Record<ParameterSpec["kind"], string>> = {
  tensor: "into is an option now: pull({ into }), pullRows(rows, { into }), pushPull(push, pull, { into })",
  table: "into is an option now: pull(keys, { into }), pushPull(push, keys, { into })",
};

/** A change begins so many clocks above the fastest worker: by then every server has heard of it. */
const CLOCKS_AHEAD = 2;

/** How often a parameter is opened that others clear at the same time. */
const OPEN_ATTEMPTS = 8;

/** Another consistency, as servers get it. */
type ModeChange = { readonly consistency: string; readonly clock: number; readonly turn: number };

/** The worker's clock: that of a call is its value, unless it has lost something; asking for it may throw then. */
export type CallClock = { readonly value: number; readonly lost: string | undefined; readonly forCall: number };

export type ParameterControlOptions = {
  readonly functions: FunctionClient;
  readonly catalogue: CatalogueClient;
  /** What the catalogue calls the parameter. */
  readonly parameter: number;
  readonly spec: ParameterSpec;
  readonly scan: FiniteScan;
  readonly clock: CallClock;
  /** Numbers the pushes of all handles of the session. */
  readonly pushes: PushNumbers;
};

export class ParameterControl implements PushCheck {
  readonly workerClock: CallClock;
  readonly clips: boolean;
  readonly scan: Pick<FiniteScan, "firstNotFinite"> | undefined;
  readonly #element: RowElement;
  /** Of the elements of its rows; undefined for integers, which are all finite. */
  readonly #scan: Pick<FiniteScan, "firstNotFinite"> | undefined;
  readonly #options: ParameterControlOptions;
  readonly #clipNorm: number | null;
  /** What the handle holds: in which incarnations of the servers the parameter was found. */
  readonly handle: ParameterHandle;
  /** Pushes that were refused or skipped before anything of them was sent. */
  #refusedCount = 0;
  #skippedCount = 0;
  /** What servers that made the parameter said of their plug-ins. */
  readonly #made = new Map<number, string>();

  constructor(options: ParameterControlOptions) {
    this.#options = options;
    this.#clipNorm = options.spec.optimizer.clipNorm ?? null;
    const { spec, parameter } = options;
    this.workerClock = options.clock;
    this.clips = this.#clipNorm !== null;
    const { nonFinite } = spec.optimizer;
    this.#element = spec.kind === "table" ? elementOf(spec) : "f32";
    this.#scan = this.#element === "f32" ? options.scan : this.#element === "f64" ? F64_SCAN : undefined;
    this.scan = nonFinite === "refuse" || nonFinite === "skip" ? this.#scan : undefined;
    this.handle = new ParameterHandle(
      { name: spec.name, maker: spec.kind === "tensor" ? "tensor" : "embedding", parameter },
      options.pushes,
    );
  }

  get clock(): number {
    return this.#options.clock.forCall;
  }

  /** Throws BAD_ARGUMENT for options that a call cannot have, ABORTED. Written out: every push and pull passes it. */
  checkCall(options: WaitOptions, known: readonly string[] = WAIT_NAMES): void {
    if (ArrayBuffer.isView(options)) throw badArgument(`${this.#options.spec.name}: ${INTO_MOVED[this.#options.spec.kind]}`);
    checkWait(options);
    if (options.signal?.aborted)
      checkNotAborted(`a call of ${JSON.stringify(this.#options.spec.name)}, of which nothing was sent,`, options);
    for (const name in options)
      if (!known.includes(name)) checkOptions(options, known, `the options of a call of ${this.#options.spec.name}`);
  }

  /** How a call is sent at this worker's clock. Throws BAD_ARGUMENT. */
  callNow(options: CallOptions = {}, known: readonly string[] = CALL_NAMES): ParameterCall {
    this.checkCall(options, known);
    const { timeoutMs, signal, priority } = options;
    return { timeoutMs, signal, priority, clock: this.clock };
  }

  /** The same for a push and pull, whose values may land in an array of its options. */
  pushPullNow(options: PushPullOptions<unknown>): ParameterCall {
    return this.callNow(options, PUSH_PULL_NAMES);
  }

  /** The same for a pull, as of so many clocks after this worker's own. Throws BAD_ARGUMENT, OUT_OF_RANGE. */
  readAhead(options: PullOptions<unknown>): ParameterCall {
    this.checkCall(options, PULL_NAMES);
    const { timeoutMs, signal, priority, clocksAhead = 0 } = options;
    const { name } = this.#options.spec;
    if (!(Number.isSafeInteger(clocksAhead) && clocksAhead >= 0))
      throw badArgument(`clocksAhead of ${name}: a whole number from 0 on, not ${showValue(clocksAhead)}`);
    const clock = this.clock + clocksAhead;
    if (clock <= CLOCK_MAX) return { timeoutMs, signal, priority, clock };
    throw new WeighbridgeError("OUT_OF_RANGE", `clocksAhead of ${name}: clock ${clock} is above ${CLOCK_MAX}, the highest there is`);
  }

  /**
   * How a gradient is pushed. One of up to WHOLE_CHECK_FLOATS that is not finite is refused or skipped here, before
   * anything of it is sent, where the optimizer asks for that: whole, however many servers and frames it would go to.
   * Of longer ones the servers refuse or skip the blocks it concerns. Throws NOT_FINITE.
   */
  readonly admit: Admit = (gradients, given) => {
    const { scale } = this.admitCached(gradients, given);
    const skips = this.#options.spec.optimizer.nonFinite === "skip" && this.#firstNotFinite(gradients) >= 0;
    if (skips) this.#skippedCount++;
    return { scale, skips };
  };

  /**
   * What a gradient is multiplied with so that its norm, that of what is applied, is at most what the optimizer
   * allows. What is not finite does not count there; the caller sees to it. Throws NOT_FINITE where it is to be
   * refused, nothing of it sent. As `admit` but for what is skipped: a cache skips and counts that itself.
   */
  readonly admitCached: Admit = (gradients, given) => {
    const { name, optimizer } = this.#options.spec;
    const index = optimizer.nonFinite === "refuse" ? this.#firstNotFinite(gradients) : -1;
    if (index < 0) return { scale: this.clipScaleOf(gradients), skips: false };
    this.#refusedCount++;
    const [sums, all] = [floatsOf(this.#element, gradients), floatsOf(this.#element, given)];
    const first = all.findIndex((value) => !Number.isFinite(value));
    const what = first < 0 ? `the sum of what it has for one row is ${sums[index]}` : `element ${first} of the gradient is ${all[first]}`;
    throw new WeighbridgeError("NOT_FINITE", `${name}: ${what}; nothing of it was pushed`);
  };

  #firstNotFinite(gradient: Float32Array): number {
    // The sender reports what is no array.
    const isLooked = gradient instanceof Float32Array && gradient.length <= WHOLE_CHECK_FLOATS;
    return isLooked ? (this.#scan?.firstNotFinite(gradient) ?? -1) : -1;
  }

  /** The same, for callers that check themselves whether it is finite. */
  clipScaleOf(gradient: Float32Array): number {
    if (this.#clipNorm === null || !(gradient instanceof Float32Array)) return 1;
    const norm = gradientNorm(gradient);
    return clipScale(Number.isFinite(norm) ? norm : gradientNorm(gradient.filter(Number.isFinite)), this.#clipNorm);
  }

  /**
   * Makes or opens the parameter: the scheduler gives it its number and says who of two workers that differ has it,
   * then the servers make it. Throws SPEC_MISMATCH, also where servers have different plug-ins, UNKNOWN_PLUG_IN and
   * HANDLER_FAILED, and what catalogue-client.ts throws for a name that nobody has made, and without the scheduler.
   */
  static async open<S extends ParameterSpec>(
    options: Omit<ParameterControlOptions, "parameter" | "spec">,
    wanted: Wanted<S>,
    wait: WaitOptions,
  ): Promise<{ readonly control: ParameterControl; readonly spec: S }> {
    const { catalogue } = options;
    for (let attempt = 1; ; attempt++) {
      const { number, edition, isNew, spec } = await catalogue.open(wanted, wait);
      const control = new ParameterControl({ ...options, spec, parameter: number });
      const made = await options.functions.steady(); // all servers make it, also those that come
      try {
        await control.#create(edition, wait).finally(made);
        return { control, spec };
      } catch (thrown) {
        if (isWeighbridgeError(thrown, "UNKNOWN_PARAMETER") && attempt < OPEN_ATTEMPTS) {
          catalogue.forget(spec.name); // it was cleared meanwhile: the catalogue has its next edition
          continue;
        }
        // The refusal is what its caller has to learn.
        if (isNew && (isRefusal(thrown) || thrown instanceof PlugInDifference)) await control.#withdraw(edition, wait).catch(() => {});
        throw thrown;
      }
    }
  }

  async #create(edition: number, wait: WaitOptions): Promise<void> {
    const { functions, parameter, spec } = this.#options;
    const request = { parameter, edition, spec: JSON.stringify(spec) };
    const made = this.#made;
    const calls = functions.servers.map((server) => ({
      to: { server },
      request,
      answered: ({ plugIns }: { readonly plugIns: string }) => {
        this.handle.found(server, functions.incarnationOf(server)); // of the incarnation that answers
        made.set(server, plugIns);
      },
    }));
    await functions.callEach(parameterCreate, calls, wait);
    requireSamePlugIns(spec.name, made);
  }

  /**
   * Returns the clock from which on everything holds on every server: this worker's, or for a consistency one that is
   * still to come. When it rejects, some servers may have changed and others not. Throws BAD_ARGUMENT and
   * UNSUPPORTED, nothing changed.
   */
  async configure(settings: ParameterSettings): Promise<number> {
    const { spec } = this.#options;
    checkWaitOptions(settings, SETTING_NAMES, `the settings of ${spec.name}`);
    const { consistency, fromClock = 0, timeoutMs, signal, ...others } = settings;
    const wait = { timeoutMs, signal };
    if (consistency !== undefined && others.staleness !== undefined)
      throw badArgument(`the settings of ${spec.name}: a consistency has its own staleness; leave the other out`);
    if (!(Number.isSafeInteger(fromClock) && fromClock >= 0 && fromClock <= CLOCK_MAX)) throw badField("fromClock", "a clock", fromClock);
    if (settings.fromClock !== undefined && consistency === undefined)
      throw badArgument(`the settings of ${spec.name}: fromClock says when a consistency begins, and none is given`);
    const mode = consistency === undefined ? undefined : modeOf(consistency);
    if (mode !== undefined) checkChange(spec, mode);
    const body = settingsBody(others);
    const isSet = mode === undefined || Object.values(body).some((value) => value !== undefined);
    const { functions, parameter } = this.#options;
    const change = mode === undefined ? { consistency: "", clock: 0, turn: 0 } : await this.#turnOf(mode, fromClock, wait);
    const request = { parameter, settings: isSet ? JSON.stringify(body) : "", ...change };
    const told = await functions.steady();
    const changes = await functions.callAll(parameterConfigure, request, this.#scoped(wait)).finally(told);
    return mode === undefined ? this.clock : Math.max(...changes.map(({ clock }) => clock));
  }

  /** spec/consistency.md, M4 */
  async #turnOf(mode: ConsistencyMode, fromClock: number, wait: WaitOptions): Promise<ModeChange> {
    const states = await this.#states(wait);
    const clock = Math.max(fromClock, Math.max(this.clock, ...states.map((state) => state.clock)) + CLOCKS_AHEAD);
    if (clock > CLOCK_MAX)
      throw new WeighbridgeError(
        "OUT_OF_RANGE",
        `${this.handle.name} would change at clock ${clock}, above ${CLOCK_MAX}, the highest there is`,
      );
    return { consistency: JSON.stringify(encodeMode(mode)), clock, turn: Math.max(...states.map((state) => state.turn)) + 1 };
  }

  /** How the parameter stands on every server. */
  async #states(wait: WaitOptions): Promise<readonly ParameterState[]> {
    const { functions, parameter } = this.#options;
    return await functions.callAll(parameterState, { parameter, name: this.handle.name }, this.#scoped(wait));
  }

  #scoped(wait: WaitOptions): CallWait & { readonly scope: number } {
    return { ...wait, scope: this.#options.parameter, subject: this.handle };
  }

  async nonFinite(wait: WaitOptions): Promise<NonFiniteCounts> {
    this.checkCall(wait);
    const counts = await this.#states(wait);
    const sum = (of: keyof NonFiniteCounts): number => counts.reduce((total, count) => total + count[of], 0);
    return {
      refusedPushes: this.#refusedCount + sum("refusedPushes"),
      skippedPushes: this.#skippedCount + sum("skippedPushes"),
      zeroedElements: sum("zeroedElements"),
    };
  }

  /**
   * The catalogue comes before the servers: a clear that does not reach all of them is finished by the worker that
   * makes the name anew. Before both, the servers say whether they have what this handle knows.
   */
  async drop(wait: WaitOptions): Promise<void> {
    const { functions, catalogue, parameter, pushes } = this.#options;
    this.checkCall(wait);
    await this.#states(wait);
    const edition = await catalogue.clear(this.handle.name, wait);
    const cleared = await functions.steady();
    const request = { parameter, edition, pushNumber: pushes.last(parameter) };
    await functions.callAll(parameterClear, request, this.#scoped(wait)).finally(cleared);
    pushes.cleared(parameter); // they do not count for one that is made anew
  }

  /** Some servers could not make it: those that did clear it, and the name is free. */
  async #withdraw(edition: number, wait: WaitOptions): Promise<void> {
    const { functions, catalogue, parameter } = this.#options;
    await catalogue.clear(this.handle.name, wait);
    const calls = [...this.#made.keys()].map((server) => ({ to: { server }, request: { parameter, edition, pushNumber: 0 } }));
    await functions.callEach(parameterClear, calls, wait);
  }
}

const REFUSALS: readonly string[] = ["ARENA_FULL", "BAD_ARGUMENT", "BAD_REQUEST", "HANDLER_FAILED", "UNKNOWN_PLUG_IN", "UNSUPPORTED"];

/** Whether a server cannot make the parameter, now or later. */
function isRefusal(thrown: unknown): boolean {
  return isWeighbridgeError(thrown) && REFUSALS.includes(thrown.code);
}

/** Throws BAD_ARGUMENT. */
function modeOf(consistency: Consistency): ConsistencyMode {
  const { staleness = Infinity, ...mode } = engineConsistency(consistency);
  return { ...mode, staleness };
}

/** Throws BAD_ARGUMENT. */
function settingsBody({ learningRate, schedule, staleness }: ParameterSettings): Readonly<Record<string, unknown>> {
  if (!(learningRate === undefined || Number.isFinite(learningRate))) throw badField("learningRate", "a finite number", learningRate);
  if (!(staleness === undefined || staleness === Infinity || (Number.isSafeInteger(staleness) && staleness >= 0)))
    throw badField("staleness", "a whole number of clocks, or Infinity", staleness);
  return {
    learningRate,
    schedule: schedule === undefined ? undefined : resolveSchedule(schedule, "schedule"),
    staleness: staleness === undefined ? undefined : encodeStaleness(staleness),
  };
}

/** What a server says of the plug-ins that it made a parameter with. */
const plugInsShape = list(object({ kind: oneOf("updater", "rowType"), name: text, version: count, hash: text, module: text }));
const KIND_WORDS = { updater: "updater", rowType: "row type" } as const;

/** The servers differ in a plug-in. Its code is SPEC_MISMATCH. */
class PlugInDifference extends WeighbridgeError {}

/** `answers`: what each server said, by rank. Throws PlugInDifference, which names servers and modules. */
export function requireSamePlugIns(parameter: string, answers: ReadonlyMap<number, string>): void {
  const [first, ...others] = [...answers]
    .sort(([one], [other]) => one - other)
    .map(([server, json]) => ({
      server,
      plugIns: plugInsShape(JSON.parse(json), `plugIns of server ${server}`),
    }));
  for (const { server, plugIns } of first === undefined ? [] : others) {
    for (const [i, plugIn] of plugIns.entries()) {
      const other = first?.plugIns[i];
      if (other === undefined || (other.version === plugIn.version && other.hash === plugIn.hash)) continue;
      const what = `${KIND_WORDS[plugIn.kind]} ${JSON.stringify(plugIn.name)}`;
      const told = (at: number | undefined, { version, hash, module }: typeof plugIn): string =>
        `server ${at} version ${version} of ${module} (source ${hash})`;
      throw new PlugInDifference(
        "SPEC_MISMATCH",
        `${parameter}: servers have different modules with the ${what}: ${told(first?.server, other)}, ${told(server, plugIn)}`,
      );
    }
  }
}

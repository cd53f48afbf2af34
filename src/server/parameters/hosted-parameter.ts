// hosted-parameter — what a tensor and a table share on a server: consistency, optimizer and settings, the count of
// pushes, and how they end. Not their contents, pushes and pulls: tensor-parameter.ts, table-parameter.ts.
//
// Invariants:
//   HostedParameter.H1. lazyAdam: a push is one step of the whole parameter, wherever its rows lie; so is a clock with
//       sync updates (spec/consistency.md, N3, N4). For other optimizers nothing is counted: their count is 0.
//   HostedParameter.H2. Pushes are counted as soon as lazyAdam, or a mean over the workers that pushed, needs it.
//   HostedParameter.H3. A push that is refused or skipped here is no step here (spec/consistency.md, N3).
//   HostedParameter.H4. Once an updater has failed in a round, pushes, reads and saves of the parameter throw
//       HANDLER_FAILED here until it is cleared, loaded or restored.
//   HostedParameter.H5. A push of a guest is async, or refused: it belongs to no clock. It is taken as one of the
//       lowest clock, so that a change of the consistency holds for it as for the slowest worker. Values that it sets,
//       or begins with, are too.

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import type { ConsistencyChange, ConsistencyPhases } from "../../consistency/consistency-phases.ts";
import type { StalenessController } from "../../consistency/staleness-controller.ts";
import { guestError, type WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type { MergeNumber } from "../../kernel/duplicate-kernels.ts";
import type { Initializer } from "../../store/initializers/initializer.ts";
import { checkChange, type ParameterSpec } from "../../store/parameter-spec.ts";
import type { TrainingState } from "../../store/training-state.ts";
import { type ResolvedSchedule, resolveSchedule } from "../../store/updaters/learning-rate-schedule.ts";
import { mergeOf } from "../../store/updaters/optimizer-spec.ts";
import type { ParameterUpdater } from "../../store/updaters/parameter-updater.ts";
import type { NonFiniteCounts } from "../../store/updaters/updater.ts";
import type { ValueShape } from "../../wire/codecs/value-codec.ts";
import { handlerStack } from "../../wire/failure.ts";
import { isGuest } from "../../wire/node-id.ts";
import type { CallMemory } from "./call-memory.ts";
import type { ParameterHost, ParameterIds } from "./parameter-host.ts";
import { ParameterLink } from "./parameter-link.ts";
import { ParameterPace, type Reading } from "./parameter-pace.ts";
import type { TakenImage } from "./table-workers.ts";

/** A push to a parameter, by its number among those of its worker. */
type NumberedPush = { readonly holder: WorkerIncarnation; readonly clock: number; readonly pushNumber: number };

export abstract class HostedParameter<S extends ParameterSpec> {
  readonly spec: S;
  readonly pace: ParameterPace;
  /** Which consistency it has at which clock, for what every request looks at. */
  readonly phases: ConsistencyPhases;
  abstract readonly store: { close(): void };
  readonly host: ParameterHost;
  readonly clocks: StalenessController;
  readonly updater: ParameterUpdater;
  protected readonly initializer: Initializer;
  /** Its number on the wire. */
  readonly number: number;
  /** How values and keys travel; undefined: as they are. */
  readonly link: ParameterLink | undefined;
  /** HostedParameter.H1 */
  readonly countsSteps: boolean;
  /**
   * The known pushes to the whole parameter, and the clocks with a sync push to it (HostedParameter.H1). Pushes raise
   * it, too.
   */
  step = 0;
  readonly #id: number;
  /** The last clock that was counted as a step. */
  #roundClock = -1;
  #isRestored = false;
  #failure: WeighbridgeError | undefined;

  /**
   * `width`: elements of a row for the optimizer. Throws UNSUPPORTED, ARENA_FULL, and the refusals of plug-ins
   * (PlugIns.L2).
   */
  constructor(host: ParameterHost, { id, number }: ParameterIds, spec: S, width: number) {
    this.spec = spec;
    this.host = host;
    this.clocks = host.pacer.clocks;
    this.number = number;
    this.#id = id;
    this.pace = new ParameterPace(host.pacer, id, spec);
    this.phases = this.pace.phases;
    this.link = ParameterLink.of(host, spec);
    this.initializer = host.initializer(spec);
    try {
      this.updater = host.updater(spec, width, (failure) => this.#fail(failure));
    } catch (thrown) {
      this.initializer.close();
      throw thrown;
    }
    this.countsSteps = this.updater.countsPushes;
    this.#countPushes();
  }

  /** HostedParameter.H4. Undefined while no round has failed. */
  get failure(): WeighbridgeError | undefined {
    return this.#failure;
  }

  /** How values are put together; undefined for gradients, which add up. */
  get merge(): MergeNumber | undefined {
    return mergeOf(this.spec.optimizer);
  }

  /** A worker made so many more pushes at this clock than were known here. Returns whether they wait for others. */
  notePushes(clock: number, count: number): boolean {
    this.phases.take(clock);
    const waits = this.phases.at(clock).updates === "sync";
    if (!waits && this.countsSteps) this.step += count;
    return waits;
  }

  /**
   * Handles a frame of a push to a parameter that counts steps: a push is one here unless it is refused or skipped
   * (HostedParameter.H1, HostedParameter.H3). Throws what `take` throws, and STALE_UPDATE, NOT_JOINED, NODE_DEAD or
   * FENCED if the worker may not push now.
   */
  counted({ holder, clock, pushNumber }: NumberedPush, take: () => void): void {
    const { pushes } = this.host.pacer;
    try {
      this.clocks.checkUpdate(holder, clock);
    } catch (thrown) {
      pushes.refuseUnjoined(holder, this.number, { number: pushNumber, clock });
      throw thrown;
    }
    const { counts } = this.updater;
    const rise = pushes.rise(holder, this.number, pushNumber);
    const isStep = this.phases.at(clock).updates !== "sync";
    const { skippedPushes } = counts;
    let isTaken = false;
    if (isStep) this.step += rise;
    try {
      take();
      isTaken = counts.skippedPushes === skippedPushes;
    } finally {
      if (rise > 0 && !isTaken) {
        pushes.refuse(holder, this.number, pushNumber);
        if (isStep) this.step--;
      }
    }
  }

  /**
   * The clock of a guest's push (HostedParameter.H5). Throws UNSUPPORTED, where a push waits for others or is counted
   * on servers that it does not come to.
   */
  guestClock(holder: WorkerIncarnation): number {
    const { worker } = holder;
    const { clockMin } = this.clocks;
    this.#requireAsync(holder, "pushed to");
    if (this.countsSteps)
      throw guestError(worker, `pushed to ${JSON.stringify(this.spec.name)}, whose optimizer counts the pushes of workers`);
    return clockMin;
  }

  /** Of values that are set, or begun with (HostedParameter.H5). Throws UNSUPPORTED. */
  checkSetter(holder: WorkerIncarnation): void {
    if (isGuest(holder.worker)) this.#requireAsync(holder, "set values of");
  }

  #requireAsync({ worker }: WorkerIncarnation, did: string): void {
    if (this.phases.at(this.clocks.clockMin).updates === "sync")
      throw guestError(worker, `${did} ${JSON.stringify(this.spec.name)}, whose updates are sync`);
  }

  /** A clock with sync updates is a step, once, wherever its rows lie (HostedParameter.H1). */
  countRound(clock: number): void {
    if (!this.countsSteps || clock <= this.#roundClock) return;
    this.step++;
    this.#roundClock = clock;
  }

  /** How many workers pushed to the parameter at this clock, while its rounds are applied. */
  pusherCount(clock: number): number {
    return this.host.pacer.pushes.pusherCount(this.number, clock);
  }

  /**
   * The values of a request: where they lie, or decoded in memory that `memory` holds. Calls `shapeOf` for encoded
   * ones. Throws BAD_REQUEST, ARENA_FULL.
   */
  protected valuesIn(payload: ArrayBufferView, shapeOf: () => ValueShape, memory: CallMemory): Float32Array {
    if (this.link !== undefined) return this.link.decoded(payload, shapeOf(), memory);
    if (payload instanceof Float32Array) return payload;
    throw badRequest(`${payload.byteLength} bytes of values came for ${this.spec.name}, which are no whole f32`);
  }

  /** `length` of `what` came with a request. */
  wrongLength(length: number, what: string, expected: number): WeighbridgeError {
    return new WeighbridgeError("VALUE_LENGTH", `${length} ${what} came for ${this.spec.name}; ${expected} were expected`);
  }

  whenFresh<T>(reading: Reading, read: () => T): T | Promise<T> {
    return this.pace.when(reading, read);
  }

  /** Counts of pushes that were not finite. */
  get nonFinite(): Readonly<NonFiniteCounts> {
    return this.updater.counts;
  }

  /** Throws BAD_ARGUMENT. */
  configure({ learningRate, schedule, staleness }: DecodedSettings): void {
    if (learningRate !== undefined) this.updater.rate.set(learningRate);
    if (schedule !== undefined) this.updater.rate.setSchedule(schedule);
    if (staleness !== undefined) this.pace.changeStaleness(staleness);
  }

  /** Changes the consistency; returns the clock at which that begins. Throws QUEUE_FULL, BAD_ARGUMENT. */
  change(change: ConsistencyChange): number {
    checkChange(this.spec, change.mode);
    const from = this.pace.change(change);
    this.#countPushes();
    return from;
  }

  /** What a checkpoint keeps beside the rows. */
  get training(): TrainingState {
    const { value: learningRate, schedule } = this.updater.rate;
    return { learningRate, schedule, ...this.pace.training, step: this.step };
  }

  /** Whether it is from a checkpoint, or was loaded alone. */
  get isRestored(): boolean {
    return this.#isRestored;
  }

  /** Continues from a checkpoint. */
  resume({ learningRate, schedule, staleness, consistency, step }: TrainingState): void {
    this.#isRestored = true;
    this.step = step;
    this.configure({ learningRate: this.spec.optimizer.learningRate === undefined ? undefined : learningRate, schedule, staleness });
    if (consistency !== undefined) this.pace.resume(consistency);
    this.#countPushes();
  }

  /** What belongs to the server and not to a part, for a standby that is filled. */
  save(): ParameterImage {
    const { number, training, phases } = this;
    const counts = { clockTop: phases.clockTop, roundClock: this.#roundClock, isRestored: this.#isRestored };
    return { number, training, ...counts, claim: 0, taken: [] };
  }

  /** Of a parameter that was just made. */
  load({ training, clockTop, roundClock, isRestored }: ParameterImage): void {
    this.resume(training);
    this.phases.clockTop = clockTop;
    this.#roundClock = roundClock;
    this.#isRestored = isRestored;
  }

  close(): void {
    this.endRounds();
    this.free();
  }

  /** The parameter ends: parked reads fail, and open rounds are dropped. */
  endRounds(): void {
    const error = new WeighbridgeError("UNKNOWN_PARAMETER", `${this.spec.name} was dropped`);
    this.host.pacer.forget(this.#id, error);
    this.forgetRounds(error);
  }

  protected abstract forgetRounds(error: WeighbridgeError): void;

  /** Releases its memory, after `endRounds`. */
  free(): void {
    this.store.close();
    this.freeOptimizer();
  }

  /** Releases all but the store. */
  protected freeOptimizer(): void {
    this.updater.close();
    this.initializer.close();
    this.link?.close();
  }

  /** HostedParameter.H4. Parked reads fail with it, too. */
  #fail(cause: WeighbridgeError): void {
    const { host, spec } = this;
    const why = `a round of ${JSON.stringify(spec.name)} failed on ${host.name}, and the parameter is not used before it is restored`;
    this.#failure = new WeighbridgeError("HANDLER_FAILED", `${why}: ${cause.message}`, { cause });
    host.log.error("a round failed", { parameter: spec.name, reason: cause.message, stack: handlerStack(cause) });
    host.failed(this.number);
    host.pacer.lot.failParameter(this.#id, this.#failure);
  }

  /** HostedParameter.H2 */
  #countPushes(): void {
    if (this.countsSteps || this.phases.history.phases.some(({ reduce }) => reduce === "mean")) this.host.pacer.pushes.isCounted = true;
  }
}

/** What a parameter is on a server beside its rows, blocks and open rounds. */
export type ParameterImage = {
  readonly number: number;
  readonly training: TrainingState;
  readonly clockTop: number;
  readonly roundClock: number;
  readonly isRestored: boolean;
  /** The newest claim to raw rows; 0: none. */
  readonly claim: number;
  /** The last update of each worker, of a table that process caches read. */
  readonly taken: TakenImage;
};

type DecodedSettings = {
  readonly learningRate: number | undefined;
  readonly schedule: ResolvedSchedule | undefined;
  /** Undefined: as it is. Infinity: any number of clocks. */
  readonly staleness: number | undefined;
};

/** Throws BAD_REQUEST, or BAD_ARGUMENT for an invalid schedule. */
export function decodeSettings(json: string): DecodedSettings {
  let value: Readonly<Record<string, unknown>>;
  try {
    value = JSON.parse(json) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw new WeighbridgeError("BAD_REQUEST", "the settings of a parameter are no JSON", { cause });
  }
  const { learningRate, schedule, staleness } = value;
  if (learningRate !== undefined && !(typeof learningRate === "number" && Number.isFinite(learningRate))) {
    throw badRequest(`a learning rate is a number, not ${JSON.stringify(learningRate)}`);
  }
  if (staleness !== undefined && staleness !== "any" && !(Number.isSafeInteger(staleness) && (staleness as number) >= 0)) {
    throw badRequest(`a staleness is a whole number of clocks, not ${JSON.stringify(staleness)}`);
  }
  return {
    learningRate: learningRate as number | undefined,
    schedule: schedule === undefined ? undefined : resolveSchedule(schedule),
    staleness: staleness === "any" ? Infinity : (staleness as number | undefined),
  };
}

// level-one — level 1 of a shared model in one thread: takes what its devices push, and ends their pulls. Every thread
// of a model has one, over the same words; that of the owner also adds keys, has results exchanged (exchanges.ts) and
// handles the ends of devices. key-rounds.ts decides, task-loop.ts runs the tasks. Knows no face and no Node.
//
// Invariants:
//   LevelOne.L1. `push` and `pull` move no data but those that only this thread can reach: tasks are done later, in a
//       turn of their own or by a thread that waits.
//   LevelOne.L2. What a task throws, or level 2, is what `wait` rejects with; it ends no thread.
//   LevelOne.L3. After `close`, and when the model is broken, all pulls that are open reject.

import { assert } from "../../base/assert.ts";
import type { Clock } from "../../base/clock.ts";
import { type WaitOptions, waitFor } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { Exchanges } from "./exchanges.ts";
import { KeyPlans } from "./key-plans.ts";
import { keyWordsFor } from "./key-record.ts";
import { KeyRounds, type RoundRules } from "./key-rounds.ts";
import type { LevelTwo } from "./level-two.ts";
import { ListRounds } from "./list-rounds.ts";
import { type KeyPlan, type ResultVersion, type TaskBackend, versionOf } from "./model-backend.ts";
import { type MeterMemory, ModelMeter } from "./model-meter.ts";
import { createModelMemory, type ModelMemory, ModelWords, OWNER } from "./model-words.ts";
import { OpenPulls, type Pull, type PullRequest } from "./open-pulls.ts";
import { type Copy, type HelpOptions, TaskLoop } from "./task-loop.ts";
import type { Claim } from "./task-queue.ts";

export type LevelOneOptions<Data extends object> = {
  readonly memory: ModelMemory;
  readonly meter: MeterMemory;
  /** OWNER, or that of a device's thread. */
  readonly thread: number;
  readonly rules: RoundRules;
  readonly backend: TaskBackend<Data>;
  readonly clock: Clock;
  /** Milliseconds of a clock that all threads of the model share. */
  readonly timeline: () => number;
  /** The owner's: what completes a round. Undefined: the sum does. */
  readonly levelTwo?: LevelTwo | undefined;
  /** Called when the first pull is open, and when none is any more: sleeping on a bell keeps no thread alive. */
  readonly keepAlive?: ((isNeeded: boolean) => void) | undefined;
  /** Whether this thread calls `help` after it has pushed and pulled: then nothing is scheduled for it. */
  readonly helps?: boolean | undefined;
  /** Instead of ModelWords.listen, for who decides when a thread wakes. */
  readonly listen?: ((heard: number, rung: () => void) => boolean) | undefined;
};

export type PushRequest<Data extends object> = {
  readonly data: Data;
  readonly plan: KeyPlan;
  /** The position of the device. */
  readonly device: number;
  readonly priority: number;
  readonly after: unknown;
};

/** The memory of level 1 for so many devices. */
export function levelOneMemory(deviceCount: number, keyCountMax?: number): ModelMemory {
  return createModelMemory(deviceCount, keyWordsFor(deviceCount), keyCountMax);
}

export class LevelOne<Data extends object = object> {
  readonly words: ModelWords;
  readonly meter: ModelMeter;
  readonly #options: LevelOneOptions<Data>;
  readonly #rounds: KeyRounds;
  readonly #plans: KeyPlans;
  readonly #pulls: OpenPulls<Data>;
  /** Of a backend that takes batches. */
  readonly #lists: ListRounds<Data> | undefined;
  /** Of the owner, if something completes its rounds. */
  readonly #exchanges: Exchanges | undefined;
  readonly #loop: TaskLoop;
  /** When each device's last wait ended: it computes since then. */
  readonly #computesSince = new Map<number, number>();
  /** For the requests of one push. */
  readonly #taken: number[] = [];
  /** What was heard with the lock, to be acted on without it. */
  readonly #ended: Pull<Data>[] = [];
  readonly #failed: [Pull<Data>, WeighbridgeError][] = [];
  readonly #toExchange: number[] = [];

  constructor(options: LevelOneOptions<Data>) {
    const { memory, thread, rules, backend, clock, timeline, keepAlive, levelTwo } = options;
    this.#options = options;
    this.words = new ModelWords(memory, thread);
    this.meter = new ModelMeter(options.meter, thread);
    this.#rounds = new KeyRounds(this.words, rules, (keyIndex, round) => this.#begin(keyIndex, round));
    this.#plans = new KeyPlans(this.#rounds, this.words.deviceCount);
    this.#pulls = new OpenPulls({ devices: rules.devices, keepAlive });
    const { runner } = backend;
    this.#lists =
      runner.kind === "batch"
        ? new ListRounds({ words: this.words, rounds: this.#rounds, pulls: this.#pulls, meter: this.meter, runner, backend })
        : undefined;
    const common = { words: this.words, rounds: this.#rounds, meter: this.meter, timeline };
    this.#exchanges =
      thread === OWNER && levelTwo !== undefined
        ? new Exchanges({ ...common, backend, levelTwo, planOf: (keyIndex) => this.#plans.at(keyIndex), ended: () => this.#loop.pump() })
        : undefined;
    const parts = {
      ...{ ...common, lists: this.#lists, runner, clock },
      taskOf: (claim: Claim) => this.#plans.taskOf(claim),
      hear: () => this.#hear(),
      act: () => this.#act(),
      copy: (copy: Copy) => this.#copy(copy),
      listen: options.listen ?? ((heard: number, rung: () => void) => this.words.listen(heard, rung)),
      over: () => this.#pulls.failAll(this.#closedError()),
    };
    this.#loop = new TaskLoop(parts, thread !== OWNER);
  }

  // Keys

  /** The position that the next key will have. */
  get keyCount(): number {
    return this.words.locked(() => this.words.keyCount);
  }

  /** The owner adds a key, whose memory and weights are there. It adds one at a time. */
  addKey(
    spec: Omit<KeyPlan, "index">,
    { hasWeights, isExchanged }: { readonly hasWeights: boolean; readonly isExchanged: boolean },
  ): KeyPlan {
    assert(this.#options.thread === OWNER, "the owner of a model adds its keys");
    const facts = { isGather: spec.operation === "gather", hasWeights, isExchanged };
    const index = this.words.locked(() => this.#rounds.open(spec.key, spec.length, facts));
    return this.knowKey({ ...spec, index });
  }

  /** A key that the owner has added. */
  knowKey(plan: KeyPlan): KeyPlan {
    return this.#plans.know(plan);
  }

  /** The version of the result that a key has now. Throws QUEUE_FULL, retryable, while another is being made. */
  resultOf(plan: KeyPlan): ResultVersion {
    this.#lists?.unfold(plan.index);
    const { round, isBusy } = this.words.locked(() => this.#rounds.stateOf(plan.index));
    if (isBusy) throw new WeighbridgeError("QUEUE_FULL", `key ${plan.key}: a round is being reduced; try again`, { retryable: true });
    return versionOf(round);
  }

  // Devices

  /** A thread runs this device from now on. For the owner. */
  setHome(device: number, thread: number): void {
    this.words.locked(() => this.words.setHome(device, thread));
    this.#loop.expectThreads();
  }

  isLive(device: number): boolean {
    return this.words.isLive(device);
  }

  /**
   * A device has ended; `thread` is the thread of its own that has ended as well, if there was one. Returns whether the
   * model goes on. For the owner.
   */
  loseDevice(device: number, failure: (goesOn: boolean) => WeighbridgeError, thread?: number): boolean {
    const { goesOn } = this.#options.rules;
    if (!this.words.isOpen) return false;
    if (thread !== undefined && !this.words.threadEnded(thread)) return this.#failAll(this.words.brokenError());
    this.#lists?.unfoldAll();
    const isWhole = this.words.locked(() => {
      if (!this.words.isLive(device)) return true;
      const number = this.words.keepFailure(failure(goesOn));
      this.#rounds.lose(device, number);
      const abandoned = thread === undefined ? [] : this.#rounds.tasks.abandon(thread, number);
      return abandoned.every((task) => {
        const { hasWeights, isExchanged } = this.#rounds.keyOf(task.keyIndex);
        return task.device >= 0 || !hasWeights || isExchanged;
      });
    });
    this.#pulls.failOf(device, failure(goesOn));
    if (!isWhole) {
      this.words.breakModel(); // weights were half updated
      return this.#failAll(this.words.brokenError());
    }
    this.#loop.schedule();
    return goesOn;
  }

  // Pushes and pulls

  /**
   * All of one device. Throws BAD_ARGUMENT for a second push in a round, QUEUE_FULL, NODE_DEAD, CLOSED; then none of
   * them counts.
   */
  push(requests: readonly PushRequest<Data>[]): void {
    this.#checkOpen();
    const { backend, timeline } = this.#options;
    const fromMs = timeline();
    if (this.#lists?.push(requests) === true) {
      this.words.locked(() => this.#notePushes(requests, fromMs));
      this.#loop.schedule();
      return;
    }
    const taken = this.#taken; // rounds, then refs
    this.words.locked(() => {
      for (let i = 0; i < requests.length; i++) {
        const { plan, device } = requests[i] as PushRequest<Data>;
        taken[i] = this.#rounds.checkPush(plan.index, device);
      }
    });
    for (let i = 0; i < requests.length; i++) {
      taken[i] = backend.takePush(requests[i] as PushRequest<Data>, versionOf(taken[i] as number));
    }
    this.words.locked(() => {
      for (let i = 0; i < requests.length; i++) {
        const { plan, device, priority } = requests[i] as PushRequest<Data>;
        this.#rounds.push(plan.index, device, taken[i] as number, priority);
      }
      this.#notePushes(requests, fromMs);
    });
    if (this.#options.helps !== true) this.#loop.schedule();
  }

  /** With the lock. */
  #notePushes(requests: readonly PushRequest<Data>[], fromMs: number): void {
    const [first] = requests;
    if (first === undefined) return;
    this.meter.countPushes(first.device, requests.length);
    this.meter.note("push", requests.length === 1 ? first.plan.index : -1, first.device, fromMs, this.#options.timeline());
  }

  /** All of one device. Throws BAD_ARGUMENT while another pull of the device and key is open, NODE_DEAD, CLOSED. */
  pull(requests: readonly PullRequest<Data>[]): void {
    this.#checkOpen();
    const { backend } = this.#options;
    const isFolded = this.#lists?.pull(requests) === true;
    if (!isFolded) for (const request of requests) this.#pulls.check(request);
    this.words.locked(() => {
      if (!isFolded)
        for (const request of requests) {
          const { plan, device, data, priority } = request;
          this.#rounds.pull(plan.index, device, backend.refOf(data), priority);
          this.#pulls.add(request);
        }
      if (requests[0] !== undefined) this.meter.countPulls(requests[0].device, requests.length);
    });
    if (this.#options.helps !== true) this.#loop.schedule();
  }

  /** Resolves when the last pull has ended, at once if there is none; rejects with what it failed with. */
  async wait(plan: KeyPlan, device: number, wait: WaitOptions = {}): Promise<void> {
    const pull = this.#pulls.of(plan.index, device);
    if (pull?.isOver === false)
      await this.#waitUntil(
        () => pull.isOver,
        () => this.#pulls.ended(pull),
        { keyIndex: plan.index, device, what: `the pull of key ${plan.key}` },
        wait,
      );
    if (pull?.failure !== undefined) throw pull.failure;
  }

  /** Resolves when all pulls of the device have ended; rejects with what the first of them, by its key, failed with. */
  async waitAll(device: number, wait: WaitOptions = {}): Promise<void> {
    const isOver = (): boolean => this.#pulls.openOf(device) === 0;
    const what = { keyIndex: -1, device, what: "all pulls" };
    if (!isOver()) await this.#waitUntil(isOver, () => this.#pulls.allEnded(device), what, wait);
    const failure = this.#pulls.failureOf(device);
    if (failure !== undefined) throw failure;
  }

  /** Whether pulls of the device are open. */
  isPulling(device: number): boolean {
    return this.#pulls.openOf(device) > 0;
  }

  /** For a thread that waits without its event loop: blocks it, and does shares meanwhile (TaskLoop.help). */
  help(options: HelpOptions): void {
    this.#loop.help(options);
  }

  /** Rings the threads of devices that sleep, for something that is not in the words of the model. */
  callThreads(): void {
    this.words.locked(() => this.words.ringSleepers(this.words.deviceCount));
  }

  /** Helps first (TaskLoop.L1). */
  async #waitUntil(
    isOver: () => boolean,
    ended: () => Promise<void>,
    { keyIndex, device, what }: { readonly keyIndex: number; readonly device: number; readonly what: string },
    wait: WaitOptions,
  ): Promise<void> {
    const { timeline, clock } = this.#options;
    const fromMs = timeline();
    this.#noteComputing(keyIndex, device, fromMs);
    this.#loop.pump();
    try {
      if (!isOver()) await waitFor(ended(), `${what} by device ${this.#name(device)}`, clock, wait);
    } finally {
      const toMs = timeline();
      if (this.words.isOpen) this.words.locked(() => this.meter.note("wait", keyIndex, device, fromMs, toMs));
      this.#computesSince.set(device, toMs);
    }
  }

  /** Between the end of a device's wait and its next wait it computes, as far as can be seen from here. */
  #noteComputing(keyIndex: number, device: number, toMs: number): void {
    const since = this.#computesSince.get(device);
    this.#computesSince.delete(device);
    if (since !== undefined && this.words.isOpen) this.words.locked(() => this.meter.note("compute", keyIndex, device, since, toMs));
  }

  /** All open pulls of this thread reject, those of others as well (LevelOne.L3). */
  close(): void {
    this.words.close();
    this.#pulls.failAll(this.#closedError());
  }

  // Tasks

  /** With the lock: a task begins. */
  #begin(keyIndex: number, round: number): number {
    const { runner } = this.#options.backend;
    if (round > 0) this.meter.countRound(keyIndex);
    return runner.kind === "shares" ? runner.begin(this.#plans.at(keyIndex), round) : 1;
  }

  // What has ended

  /** With the lock: takes note of pulls that have ended, and of results to exchange. */
  #hear(): boolean {
    const { thread } = this.#options;
    let hasCopies = false;
    for (let device = 0; device < this.words.deviceCount; device++) {
      if (this.words.homeOf(device) !== thread) continue;
      for (let news = this.#rounds.hear(device); news !== undefined; news = this.#rounds.hear(device)) {
        const pull = this.#pulls.of(news.keyIndex, device);
        if (news.kind === "copy") {
          this.#loop.addCopy({ ...news, device });
          hasCopies = true;
        } else if (pull === undefined || pull.isOver) continue;
        else if (news.kind === "ended") this.#ended.push(pull);
        else this.#failed.push([pull, this.words.failure(news.failure)]);
      }
    }
    this.#exchanges?.claim(this.#toExchange);
    return hasCopies || this.#ended.length + this.#failed.length + this.#toExchange.length > 0;
  }

  /** Acts on what was heard. */
  #act(): void {
    for (const [pull, failure] of this.#failed.splice(0)) this.#pulls.over(pull, failure);
    for (const pull of this.#ended.splice(0)) this.#pulls.there(pull);
    for (const keyIndex of this.#toExchange.splice(0)) this.#exchanges?.begin(keyIndex);
  }

  #copy({ keyIndex, device, round }: Copy): void {
    const { backend, timeline } = this.#options;
    const pull = this.#pulls.of(keyIndex, device);
    const fromMs = timeline();
    let failure: unknown;
    try {
      if (pull?.isOver === false) backend.copyOut(pull.request.plan, versionOf(round), pull.request.data);
    } catch (thrown) {
      failure = thrown;
    }
    this.words.locked(() => {
      this.meter.note("hand out", keyIndex, device, fromMs, timeline());
      this.#rounds.copied(keyIndex, device);
    });
    if (pull === undefined || pull.isOver) return;
    if (failure !== undefined) this.#pulls.over(pull, failure);
    else this.#pulls.there(pull);
  }

  /** Returns false, as `loseDevice` does when the model does not go on. */
  #failAll(failure: WeighbridgeError): false {
    this.#pulls.failAll(failure);
    return false;
  }

  #checkOpen(): void {
    if (!this.words.isOpen) throw this.#closedError();
  }

  #closedError(): WeighbridgeError {
    return this.words.isBroken ? this.words.brokenError() : new WeighbridgeError("CLOSED", "the shared model was closed");
  }

  #name(device: number): number {
    return this.#options.rules.devices[device] as number;
  }
}

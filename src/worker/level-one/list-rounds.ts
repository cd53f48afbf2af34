// list-rounds — rounds of whole lists of keys. Devices that push and pull the same lists in every step need no record
// of each key: while nothing else happens to its keys, a list is folded: one record says who has pushed and pulled it,
// and the backend keeps what does its round. For backends that take batches; what single calls mean is decided in
// key-rounds.ts.
//
//   unfolded: the words of the keys ──► folded: pushed by devices → pulled by all → running → over ─┐
//           ▲                              ▲                                                         │
//           └── anything else happens ─────┴─────────────────────────────────────────────────────────┘
//
// Invariants:
//   ListRounds.F1. Only calm keys are folded (FoldedKeys.F1), and a key is in one folded list at most.
//   ListRounds.F2. Whatever a folded list has no word for unfolds it first: then the words of its keys, and their
//       pulls, are those that single calls would have left. So a list means what its calls mean one by one.
//   ListRounds.F3. A list is folded when every device has pushed it `calmRounds` times since it was unfolded: folding
//       costs something, and what unfolds it may come again. It comes to twice as many if the list was not folded for
//       as long: so what is unfolded again and again is hardly ever folded, and costs what it cost without.

import { FoldedKeys } from "./folded-keys.ts";
import type { KeyRounds } from "./key-rounds.ts";
import type { PushRequest } from "./level-one.ts";
import { type BatchRunner, type PreparedTasks, type ReduceTask, type TaskBackend, versionOf } from "./model-backend.ts";
import type { ModelMeter } from "./model-meter.ts";
import type { ModelWords } from "./model-words.ts";
import type { OpenPulls, PullList, PullRequest } from "./open-pulls.ts";
import type { Claim } from "./task-queue.ts";

/** Shorter lists gain nothing. */
const KEYS_MIN = 16;
const CALM_ROUNDS = 3;
const CALM_ROUNDS_MAX = 2 ** 20;

type ListRoundsParts<Data extends object> = {
  readonly words: ModelWords;
  readonly rounds: KeyRounds;
  readonly pulls: OpenPulls<Data>;
  readonly meter: ModelMeter;
  readonly runner: BatchRunner;
  readonly backend: TaskBackend<Data>;
};

/** The same keys in the same order, as every device pushes and pulls them. */
type List<Data extends object> = {
  /** Their indexes. */
  readonly keys: Int32Array;
  /** By device. */
  readonly pushes: (readonly PushRequest<Data>[] | undefined)[];
  readonly pulls: (PullList<Data> | undefined)[];
  /**
   * Pushes since it was unfolded, or a device had another list, and how many rounds of them fold it (ListRounds.F3).
   */
  calmPushes: number;
  calmRounds: number;
  /** The backend has nothing that does its rounds again. */
  isRefused: boolean;
  isFolded: boolean;
  /** By key: how many rounds there were when it was folded; and how many there are since. */
  readonly firstRounds: Int32Array;
  roundCount: number;
  /** Who has pushed and pulled the round that is open or running. */
  readonly hasPushed: boolean[];
  readonly hasPulled: boolean[];
  pushCount: number;
  pullCount: number;
  run: ListRun<Data> | undefined;
  /** By the last bit of `roundCount`. */
  readonly prepared: [PreparedTasks | undefined, PreparedTasks | undefined];
};

/** The round of a list that the backend has. */
export type ListRun<Data extends object = object> = {
  readonly list: List<Data>;
  readonly prepared: PreparedTasks;
  /** There once the list was unfolded: then its keys' rounds are finished one by one. */
  claims: readonly Claim[] | undefined;
};

export class ListRounds<Data extends object> {
  readonly #parts: ListRoundsParts<Data>;
  readonly #keys: FoldedKeys;
  /** Requests that came once, and those of a list: who prepares them gives the same array again. */
  readonly #seen = new WeakSet<readonly object[]>();
  readonly #lists = new WeakMap<readonly object[], List<Data>>();
  /** By the index of their first key: the last one that began with it. */
  readonly #byFirst = new Map<number, List<Data>>();
  readonly #folded = new Set<List<Data>>();
  /** By index of the key. */
  readonly #foldedOf: (List<Data> | undefined)[] = [];

  constructor(parts: ListRoundsParts<Data>) {
    this.#parts = parts;
    this.#keys = new FoldedKeys(parts.words);
  }

  /** A device pushes these. False: their keys are not folded, and it is to be done key by key. */
  push(requests: readonly PushRequest<Data>[]): boolean {
    const [first] = requests;
    if (first === undefined || this.#isShort(requests)) return false;
    const { device } = first;
    let list = this.#lists.get(requests);
    if (list === undefined || list.pushes[device] !== requests || !this.#isAwaited(list, device)) {
      this.#unfoldKeysOf(requests);
      list = this.#join(requests, (joined) => {
        if (joined.pushes[device] === requests) return;
        joined.pushes[device] = requests;
        joined.calmPushes = 0;
      });
      if (list === undefined || !this.#fold(list)) return false;
    }
    list.hasPushed[device] = true;
    list.pushCount++;
    return true;
  }

  /** As `push`, of what a device pulls. */
  pull(requests: readonly PullRequest<Data>[]): boolean {
    const [first] = requests;
    if (first === undefined || this.#isShort(requests)) return false;
    const { device } = first;
    const list = this.#lists.get(requests);
    const pulls = list?.pulls[device];
    const isNext = list?.isFolded === true && list.run === undefined && list.hasPushed[device] === true && list.hasPulled[device] === false;
    if (list === undefined || pulls?.requests !== requests || !isNext) {
      this.#unfoldKeysOf(requests);
      this.#join(requests, (joined) => {
        if (joined.pulls[device]?.requests === requests) return;
        joined.pulls[device] = { requests, device, isOpen: false, watched: new Map() };
        joined.calmPushes = 0;
      });
      return false;
    }
    list.hasPulled[device] = true;
    list.pullCount++;
    this.#parts.pulls.openList(pulls);
    return true;
  }

  /** Something else happens to this key, or to any. */
  unfold(keyIndex: number): void {
    const list = this.#foldedOf[keyIndex];
    if (list !== undefined) this.#unfold(list);
  }

  unfoldAll(): void {
    for (const list of [...this.#folded]) this.#unfold(list);
  }

  /**
   * The lists whose round is complete, for one batch: they run from now on. Others that wait are unfolded
   * (ListRounds.F2).
   */
  begin(): ListRun<Data>[] {
    const runs: ListRun<Data>[] = [];
    for (const list of [...this.#folded]) {
      if (list.run !== undefined || list.pushCount < this.#deviceCount) continue;
      const prepared = list.pullCount < this.#deviceCount ? undefined : this.#preparedOf(list);
      if (prepared === undefined) {
        this.#unfold(list);
        continue;
      }
      list.run = { list, prepared, claims: undefined };
      runs.push(list.run);
      for (const keyIndex of list.keys) this.#parts.meter.countRound(keyIndex);
    }
    return runs;
  }

  /** What `begin` gave is done, or failed (0: it did not). */
  end(run: ListRun<Data>, failure: number, fromMs: number, toMs: number): void {
    const { words, rounds, meter, pulls } = this.#parts;
    const { list } = run;
    for (const keyIndex of list.keys) meter.note("reduce", keyIndex, -1, fromMs, toMs);
    if (failure !== 0 && run.claims === undefined) this.#unfold(list);
    list.run = undefined;
    const { claims } = run;
    if (claims === undefined) {
      list.roundCount++;
      clear(list);
      for (const each of list.pulls) if (each !== undefined) pulls.endList(each);
      return;
    }
    dropPrepared(list);
    words.locked(() => {
      for (const claim of claims) claim.failure = failure;
      rounds.tasks.finish(claims);
    });
  }

  get #deviceCount(): number {
    return this.#parts.words.deviceCount;
  }

  /** Whether a push of the device is one to the open round of a folded list. */
  #isAwaited({ isFolded, run, hasPushed }: List<Data>, device: number): boolean {
    return isFolded && run === undefined && hasPushed[device] === false;
  }

  /** The list that requests which come again belong to; undefined for others. */
  #join<Request extends PushRequest<Data> | PullRequest<Data>>(
    requests: readonly Request[],
    enter: (list: List<Data>) => void,
  ): List<Data> | undefined {
    if (!this.#seen.has(requests)) {
      this.#seen.add(requests);
      return undefined;
    }
    let list = this.#lists.get(requests);
    if (list === undefined) {
      if (requests.some((request) => ("after" in request ? request.after : request.callback) !== undefined)) return undefined;
      const keys = Int32Array.from(requests, ({ plan }) => plan.index);
      list = this.#byFirst.get(keys[0] as number);
      if (list === undefined || !isSame(list.keys, keys)) list = this.#newList(keys);
      this.#lists.set(requests, list);
    }
    enter(list);
    return list;
  }

  #newList(keys: Int32Array): List<Data> {
    const none = (): boolean[] => Array.from({ length: this.#deviceCount }, () => false);
    const list: List<Data> = {
      ...{
        keys,
        pushes: [],
        pulls: [],
        calmPushes: 0,
        calmRounds: CALM_ROUNDS,
        isRefused: false,
        isFolded: false,
        roundCount: 0,
        run: undefined,
      },
      ...{ hasPushed: none(), hasPulled: none(), pushCount: 0, pullCount: 0, prepared: [undefined, undefined] },
      firstRounds: new Int32Array(keys.length),
    };
    this.#byFirst.set(keys[0] as number, list);
    return list;
  }

  /** Before a push to it. Returns whether it is folded now (ListRounds.F1, ListRounds.F3). */
  #fold(list: List<Data>): boolean {
    const { words, pulls } = this.#parts;
    const { keys } = list;
    if (++list.calmPushes <= list.calmRounds * this.#deviceCount || list.isRefused || list.run !== undefined) return false;
    for (let device = 0; device < this.#deviceCount; device++)
      if (list.pushes[device] === undefined || list.pulls[device] === undefined) return false;
    if (!words.locked(() => keys.every((keyIndex) => this.#foldedOf[keyIndex] === undefined && this.#keys.isCalm(keyIndex)))) return false;
    if (!list.pulls.every((each) => each !== undefined && pulls.isCalm(each))) return false;
    for (let i = 0; i < keys.length; i++) list.firstRounds[i] = this.#keys.roundOf(keys[i] as number);
    for (const keyIndex of keys) this.#foldedOf[keyIndex] = list;
    for (const each of list.pulls) if (each !== undefined) pulls.foldList(each);
    list.roundCount = 0;
    list.isFolded = true;
    this.#folded.add(list);
    return true;
  }

  /** Then its keys are not folded. */
  #isShort(requests: readonly (PushRequest<Data> | PullRequest<Data>)[]): boolean {
    if (requests.length >= KEYS_MIN) return false;
    this.#unfoldKeysOf(requests);
    return true;
  }

  #unfoldKeysOf(requests: readonly (PushRequest<Data> | PullRequest<Data>)[]): void {
    if (this.#folded.size === 0) return;
    for (const { plan } of requests) this.unfold(plan.index);
  }

  /** ListRounds.F2 */
  #unfold(list: List<Data>): void {
    const { words, pulls } = this.#parts;
    const { keys, run } = list;
    list.isFolded = false;
    list.calmPushes = 0;
    list.calmRounds = list.roundCount < list.calmRounds ? Math.min(CALM_ROUNDS_MAX, 2 * list.calmRounds) : CALM_ROUNDS;
    this.#folded.delete(list);
    for (const each of list.pulls) if (each !== undefined) pulls.unfoldList(each);
    words.locked(() => {
      for (let i = 0; i < keys.length; i++) {
        this.#foldedOf[keys[i] as number] = undefined;
        this.#keys.advance(keys[i] as number, (list.firstRounds[i] as number) + list.roundCount);
      }
      if (run !== undefined) run.claims = this.#beginKeys(list);
      else this.#replay(list);
    });
    clear(list);
    if (run === undefined) dropPrepared(list);
  }

  /** With the lock: its round runs, for each key. */
  #beginKeys(list: List<Data>): Claim[] {
    return this.#tasksOf(list).map(({ plan, sources, targets }, i) => {
      const priority = Math.max(...list.pushes.map((requests) => requests?.[i]?.priority ?? 0));
      return this.#keys.begin(plan.index, { sources, targets, priority });
    });
  }

  /** With the lock: what was pushed and pulled, one by one. */
  #replay({ pushes, pulls, hasPushed, hasPulled }: List<Data>): void {
    const { rounds, backend } = this.#parts;
    for (const [device, requests = []] of pushes.entries())
      if (hasPushed[device] === true)
        for (const { plan, data, priority } of requests) rounds.push(plan.index, device, backend.refOf(data), priority);
    for (const [device, each] of pulls.entries())
      if (hasPulled[device] === true)
        for (const { plan, data, priority } of each?.requests ?? []) rounds.pull(plan.index, device, backend.refOf(data), priority);
  }

  /** Undefined if the backend cannot have it, or data of the list were freed. */
  #preparedOf(list: List<Data>): PreparedTasks | undefined {
    const parity = list.roundCount & 1;
    try {
      const prepared = list.prepared[parity] ?? this.#parts.runner.prepare?.(this.#tasksOf(list));
      list.prepared[parity] = prepared;
      list.isRefused = prepared === undefined;
      return prepared?.isCurrent === true ? prepared : undefined;
    } catch {
      return undefined; // what is wrong fails the batch of its keys, and is reported there
    }
  }

  /** The tasks of its next round, which all devices push and pull. */
  #tasksOf({ pushes, pulls, firstRounds, roundCount }: List<Data>): ReduceTask[] {
    const { backend } = this.#parts;
    return (pushes[0] ?? []).map(({ plan }, i) => {
      const round = (firstRounds[i] as number) + roundCount + 1;
      const sources = pushes.map((requests = []) => backend.refOf((requests[i] as PushRequest<Data>).data));
      const targets = pulls.map((each) => backend.refOf(((each as PullList<Data>).requests[i] as PullRequest<Data>).data));
      return { kind: "reduce", plan, round, version: versionOf(round), sources, targets };
    });
  }
}

/** Nobody has pushed or pulled its open round. */
function clear<Data extends object>(list: List<Data>): void {
  list.hasPushed.fill(false);
  list.hasPulled.fill(false);
  list.pushCount = 0;
  list.pullCount = 0;
}

function dropPrepared<Data extends object>({ prepared }: List<Data>): void {
  for (const kept of prepared) kept?.close();
  prepared.fill(undefined);
}

function isSame(one: Int32Array, other: Int32Array): boolean {
  return one.length === other.length && one.every((keyIndex, i) => keyIndex === other[i]);
}

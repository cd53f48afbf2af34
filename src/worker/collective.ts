// collective — operations of workers among themselves: sums, exchanges and broadcasts that no server takes part in. All
// members call the same operations in the same order; several may be open. A generation has fixed members: when one of
// them is gone, what is open fails with NODE_DEAD, and `reform` goes on with those that live.
//
// Not for a worker that comes while a generation goes on: it waits in `open` until the others reform. They see it in
// `newcomers`.
//
// Invariants:
//   Collective.L1. A sum has the same bits at every member, and in every run with as many members: its order depends on
//       their ranks alone.
//   Collective.L2. Every call ends: well, with NODE_DEAD within the time in which a death is noticed, or with the
//       caller's own deadline.
//   Collective.L3. Parts of an older generation are refused; those of the one that is being formed wait for it.

import { type WaitOptions, waitFor } from "../base/deferred.ts";
import { badArgument, isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions } from "../base/known-options.ts";
import { reducedType } from "../kernel/element-loops.ts";
import { ELEMENT_LIST, type RowArray } from "../kernel/row-element.ts";
import type { Channel } from "../peer/channel.ts";
import { CollectiveKind, DIRECT_BYTES_MAX, type GatherReply } from "../wire/collective-frame.ts";
import type { FrameHeader } from "../wire/frame.ts";
import { idOf, nameOf, rankOf } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { Broadcast } from "./collective/broadcast.ts";
import { CollectiveGroup } from "./collective/collective-group.ts";
import { DirectReduce } from "./collective/direct-reduce.ts";
import { EarlyParts } from "./collective/early-parts.ts";
import { EXCHANGE_BYTES_MAX, Exchange } from "./collective/exchange.ts";
import { type Operation, partLabel } from "./collective/operation.ts";
import { RingReduce } from "./collective/ring-reduce.ts";
import type { WorkerMesh } from "./worker-mesh.ts";

const CLOSE_DEADLINE_MS = 5000;
/** How long the scheduler is asked who is missing, after a deadline has passed. */
const LOOK_DEADLINE_MS = 1000;
const LENGTH_MAX = 2 ** 32 - 1;

/** The workers of a job that compute together: they sum, exchange and send values over connections of their own. */
export class Collective {
  readonly #mesh: WorkerMesh;
  readonly #early = new EarlyParts();
  /** The end of a generation of which this worker has not heard yet, by who told it. */
  readonly #overs = new Map<Channel, { readonly generation: number; readonly body: Uint8Array }>();
  #group: CollectiveGroup | undefined;
  /** The one before: its members may not know yet why it is over. */
  #previous: CollectiveGroup | undefined;
  #forming: Promise<void> | undefined;
  #closed: WeighbridgeError | undefined;
  /** Parts are refused: their sender does not know yet. */
  #hasStopped = false;

  private constructor(mesh: WorkerMesh) {
    this.#mesh = mesh;
  }

  /**
   * @internal Waits until every worker of the job that lives has called it. Throws UNSUPPORTED where workers are not
   * joined with each other, DEADLINE with the names of those that are missing.
   */
  static async open(mesh: WorkerMesh, wait: WaitOptions = {}): Promise<Collective> {
    if (mesh.isUsed) throw badArgument("this worker has a collective already: close it first");
    const collective = new Collective(mesh);
    mesh.use(collective);
    try {
      await collective.#form(wait);
    } catch (thrown) {
      collective.#stop();
      throw thrown;
    }
    return collective;
  }

  /** Ranks of those who take part, ascending. */
  get members(): readonly number[] {
    return this.#joined.members.map(({ node }) => rankOf(node));
  }

  /** Rises by one with every `reform()`. */
  get generation(): number {
    return this.#joined.generation;
  }

  /** Whether `close()` was called. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Why operations fail until `reform`, if they do. */
  get failure(): WeighbridgeError | undefined {
    return this.#closed ?? this.#joined.failure;
  }

  /** Ranks of workers that live, wait for the others, and are in the next generation if those reform. */
  get newcomers(): readonly number[] {
    const { members } = this.#joined;
    return this.#mesh.roster.nodes
      .filter(({ role, state, address }) => role === "worker" && state === "alive" && address !== "")
      .filter(({ node, incarnation }) => !members.some((member) => member.node === node && member.incarnation === incarnation))
      .map(({ rank }) => rank);
  }

  /**
   * Adds the values of all members, in place (Collective.L1). `values` belong to the operation until it ends; what they
   * are after a failure is not defined. When the wait ends first, with DEADLINE or ABORTED, the operation continues:
   * `reform` or `close` ends it.
   */
  async allReduce(values: RowArray, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    const group = this.#usable();
    const type = reducedType(values);
    checkLength(values, "an all-reduce", type >= 0, ELEMENT_LIST);
    const isSmall = values.byteLength <= DIRECT_BYTES_MAX;
    await this.#run(group, isSmall ? new DirectReduce(values, type) : new RingReduce(values, type), options);
  }

  /**
   * Sends `outgoing[i]` to `members[i]`, and gives what each of them sent here; its own part is given back as it is.
   */
  async exchange(outgoing: readonly Uint8Array[], options: WaitOptions = {}): Promise<readonly Uint8Array[]> {
    checkWaitOptions(options);
    const group = this.#usable();
    if (outgoing.length !== group.memberCount) throw badArgument(`${outgoing.length} parts to exchange with ${group.memberCount} members`);
    for (const part of outgoing) {
      if (part instanceof Uint8Array && part.length <= EXCHANGE_BYTES_MAX) continue;
      throw badArgument(`a part to exchange must be a Uint8Array of at most ${EXCHANGE_BYTES_MAX} bytes`);
    }
    const operation = new Exchange(outgoing);
    await this.#run(group, operation, options);
    return group.memberCount === 1 ? outgoing : operation.received;
  }

  /** Copies the values of the member of this rank to all members. */
  async broadcast(values: Float32Array, fromRank: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    const group = this.#usable();
    checkLength(values, "a broadcast", values instanceof Float32Array, "f32");
    const position = group.members.findIndex(({ node }) => node === idOf("worker", fromRank));
    if (position < 0) throw badArgument(`worker ${fromRank} cannot broadcast: the members are workers ${this.members.join(", ")}`);
    await this.#run(group, new Broadcast(values, { rank: fromRank, position }), options);
  }

  /**
   * Forms the next generation, with all workers that live and listen. Operations that are open fail with ABORTED, at
   * the others those that this worker takes no part in. All members call it; who stops waiting is in no generation
   * until it calls again.
   */
  async reform(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    const group = this.#usable();
    const message = `worker ${this.#mesh.rank} has left generation ${group.generation} to form the next one`;
    const left = group.leave(new WeighbridgeError("ABORTED", message, { retryable: true }));
    await this.#form(options, left);
  }

  /** Leaves: what the others have not begun with this worker fails with CLOSED. Waits until they have what was sent. */
  async close(options: WaitOptions = { timeoutMs: CLOSE_DEADLINE_MS }): Promise<void> {
    checkWaitOptions(options);
    if (this.#closed !== undefined) return;
    this.#closed = new WeighbridgeError("CLOSED", "the collective was closed");
    const message = `worker ${this.#mesh.rank} has closed its collective`;
    try {
      const left = this.#group?.leave(new WeighbridgeError("CLOSED", message)) ?? Promise.resolve();
      await waitFor(
        left.then(() => this.#mesh.leave()),
        "the other workers to let this one go",
        this.#mesh.clock,
        options,
      );
    } catch (thrown) {
      this.#mesh.log.warn("not all workers know that this one left them", { reason: reasonOf(thrown) });
    } finally {
      this.#stop();
      this.#early.refuse({ generation: Infinity, from: 0 }, this.#closed);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  // MeshUser

  /** @internal */
  get isBusy(): boolean {
    return this.#forming !== undefined || this.#group?.isBusy === true;
  }

  /** @internal */
  follow(roster: RosterView): void {
    this.#group?.follow(roster);
  }

  /** @internal */
  ended(error: WeighbridgeError): void {
    this.#closed ??= error;
    this.#group?.abandon(error);
    this.#early.refuse({ generation: Infinity, from: 0 }, error);
    this.#stop();
  }

  /** @internal */
  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    if (this.#hasStopped) return undefined;
    const group = this.#group;
    const label = partLabel(header);
    return group?.generation === label.generation ? group.destination(channel, label, header.payloadBytes) : undefined;
  }

  /** @internal */
  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const label = partLabel(header);
    if (this.#hasStopped && label.kind !== CollectiveKind.OVER)
      throw new WeighbridgeError("CLOSED", `worker ${this.#mesh.rank} takes no part in operations among workers`);
    if (!fresh || this.#hasStopped) {
      channel.acknowledge(header); // it was taken before, or another one says that it takes no part either
      return;
    }
    const payload = bytes.subarray(at, at + header.payloadBytes);
    const own = this.#group?.generation ?? 0;
    if (label.generation === own && this.#group !== undefined) {
      this.#group.take(channel, header, label, payload);
    } else if (label.kind === CollectiveKind.OVER) {
      if (label.generation > own) this.#overs.set(channel, { generation: label.generation, body: payload.slice() });
      channel.acknowledge(header); // at once: its sender waits for that before it asks for the next one
    } else if (label.generation > own && this.#forming !== undefined) {
      this.#early.hold(channel, header, label, payload, 1); // Collective.L3
    } else {
      throw this.#refusal(label.generation);
    }
  }

  #stop(): void {
    this.#hasStopped = true;
    this.#mesh.stop(this);
  }

  get #joined(): CollectiveGroup {
    if (this.#group === undefined) throw this.#closed ?? new WeighbridgeError("CLOSED", "this worker is in no generation yet");
    return this.#group;
  }

  #usable(): CollectiveGroup {
    const closed = this.#closed ?? this.#mesh.fatal;
    if (closed !== undefined) throw closed;
    return this.#joined;
  }

  #refusal(generation: number): WeighbridgeError {
    const known = this.#previous?.generation === generation ? this.#previous.failure : undefined;
    const message = `generation ${generation} is not that of worker ${this.#mesh.rank}, which is in ${this.#group?.generation ?? "none"}`;
    return known ?? new WeighbridgeError("NODE_DEAD", message, { retryable: true });
  }

  async #run(group: CollectiveGroup, operation: Operation, wait: WaitOptions): Promise<void> {
    group.call(operation);
    try {
      await waitFor(operation.done.promise, operation.describe(), this.#mesh.clock, wait);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "DEADLINE") || wait.timeoutMs === undefined) throw thrown;
      const names = operation.awaited().map((position) => nameOf(group.members[position]?.node ?? 0));
      const what = names.length === 0 ? "what was sent to be taken" : `parts from ${names.join(", ")}`;
      const message = `waited ${wait.timeoutMs} ms for ${operation.describe()}: ${what}`;
      throw new WeighbridgeError("DEADLINE", message, { retryable: true, cause: thrown });
    }
  }

  /** `left`: settles when the others know that this worker left; only then may the scheduler say so. */
  async #form(wait: WaitOptions, left: Promise<void> = Promise.resolve()): Promise<void> {
    this.#forming ??= this.#gather(wait, left).finally(() => {
      this.#forming = undefined;
    });
    await this.#forming;
  }

  async #gather(wait: WaitOptions, left: Promise<void>): Promise<void> {
    const mesh = this.#mesh;
    try {
      const gathered = left.then(() => mesh.gather());
      this.#install(await waitFor(gathered, "the other workers", mesh.clock, wait));
    } catch (thrown) {
      const isOurs = isWeighbridgeError(thrown, "DEADLINE") || isWeighbridgeError(thrown, "ABORTED");
      if (!isOurs || this.#closed !== undefined) throw this.#closed ?? thrown;
      const missing = await this.#missing();
      mesh.leave().catch((error: unknown) => mesh.log.warn("the scheduler still waits for this worker", { reason: reasonOf(error) }));
      if (missing === "" || thrown.code !== "DEADLINE") throw thrown;
      const message = `waited ${wait.timeoutMs} ms for ${missing} to reduce with the other workers: all of them must call it`;
      throw new WeighbridgeError("DEADLINE", message, { retryable: true, cause: thrown });
    }
  }

  /** The names of those that the next generation waits for; "" if the scheduler does not say. */
  async #missing(): Promise<string> {
    try {
      const { members, roster, generation } = await waitFor(this.#mesh.look(), "who is missing", this.#mesh.clock, {
        timeoutMs: LOOK_DEADLINE_MS,
      });
      const isAwaited = ({ node, address }: RosterEntry): boolean =>
        generation === 0 || address !== "" || this.#mesh.lastMembers.some((member) => member.node === node);
      return roster.nodes
        .filter((entry) => entry.role === "worker" && entry.state === "alive" && isAwaited(entry))
        .filter(({ node }) => !members.some((member) => member.node === node))
        .map(({ node }) => nameOf(node))
        .join(", ");
    } catch {
      return ""; // the scheduler is away, which may be why nobody came
    }
  }

  #install({ generation, members }: GatherReply): void {
    const mesh = this.#mesh;
    if (this.#closed !== undefined) throw this.#closed;
    const node = idOf("worker", mesh.rank);
    const position = members.findIndex((member) => member.node === node);
    const channels = members.map((member) => (member.node === node ? undefined : mesh.channel(member)));
    this.#previous = this.#group;
    const group = new CollectiveGroup({ generation, members, position, channels, early: this.#early, clock: mesh.clock });
    this.#group = group;
    const over = this.#previous?.failure ?? new WeighbridgeError("NODE_DEAD", `generation ${generation} has begun`, { retryable: true });
    this.#early.refuse({ generation: generation - 1, from: 0 }, over);
    group.follow(mesh.roster); // somebody may be gone already
    for (const [channel, over] of this.#overs) if (over.generation === generation) group.takeOver(channel, over.body);
    this.#overs.clear();
  }
}

function checkLength(values: RowArray, what: string, isRight: boolean, types: string): void {
  if (!isRight) throw badArgument(`${what} takes an array of ${types}`);
  if (values.length > LENGTH_MAX) throw badArgument(`${what} of ${values.length} elements: at most ${LENGTH_MAX}`);
}

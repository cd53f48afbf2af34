// router-stage — a router and servers that the test plays. Requests wait in order for each server until the test lets
// one happen. All servers change to the next placement, with what they own, at one moment. Values are summed.

import { embeddingSpec, tensorSpec } from "../api/parameter-options.ts";
import { assert } from "../base/assert.ts";
import { bytesOf, joinBytes } from "../base/bytes.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { OpenWaits } from "../base/open-waits.ts";
import { sspSync } from "../contracts/beside-parameters.ts";
import { clockAdvance } from "../contracts/clocks.ts";
import type { Contract } from "../contracts/contract.ts";
import { parameterState } from "../contracts/parameters.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../contracts/rows.ts";
import { tensorPull, tensorPush, tensorPushPull } from "../contracts/tensors.ts";
import type { Arena } from "../kernel/arena.ts";
import type { FiniteScan } from "../kernel/finite-scan.ts";
import { evenRanges } from "../keys/key-range.ts";
import { type Placement, partOf } from "../keys/placement.ts";
import { placementOf } from "../keys/placement-of.ts";
import { type Call, IN_PLACE_BYTES_MAX, leftError } from "../peer/call.ts";
import type { Channel } from "../peer/channel.ts";
import { EncodedFrames, PagePool } from "../peer/frame-batch.ts";
import type { ParameterSpec } from "../store/parameter-spec.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import { FrameHeader, Kind, setExtent } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { KvFlag } from "../wire/kv-message.ts";
import { idOf } from "../wire/node-id.ts";
import type { PlacementView, RosterView } from "../wire/roster.ts";
import type { CatalogueClient } from "../worker/catalogue-client.ts";
import { Embedding } from "../worker/embedding.ts";
import { FunctionClient } from "../worker/function-client.ts";
import { ParameterControl } from "../worker/parameter-control.ts";
import { RowPlanner } from "../worker/router/row-plan.ts";
import { Router } from "../worker/router.ts";
import { Tensor } from "../worker/tensor.ts";
import { PushNumbers } from "../worker/worker-clock.ts";
import { SimClock } from "./sim-clock.ts";
import { StubLink } from "./stub-link.ts";

const CONTRACTS: readonly Contract[] = [
  rowsPush,
  rowsPull,
  rowsPushPull,
  tensorPush,
  tensorPull,
  tensorPushPull,
  clockAdvance,
  parameterState,
  sspSync,
].map((fn) => fn as unknown as Contract);
const INCARNATION = 1;
/** How long requests wait for a server that no roster has named. */
const START_TIMEOUT_MS = 60_000;
const STATE = { clock: 0, turn: 0, refusedPushes: 0, skippedPushes: 0, zeroedElements: 0, waits: "" };
/** Of rows of tables. */
const ROW_FLOATS = 2;

/** Gradients here are finite. */
const NO_SCAN = { firstNotFinite: () => -1 } as unknown as FiniteScan;

/** What a server did, in order. */
export type Applied = { readonly server: number; readonly what: string; readonly clock: number };

export class RouterStage {
  readonly clock: SimClock;
  readonly router: Router;
  readonly functions: FunctionClient;
  readonly pushes: PushNumbers = new PushNumbers();
  /** Of the worker whose calls these are. */
  readonly workerClock: { value: number; readonly lost: undefined; readonly forCall: number } = {
    value: 0,
    lost: undefined,
    get forCall() {
      return this.value;
    },
  };
  /** By key for kv, by `row key` for rows, by `parameter/block` for blocks. */
  readonly values: Map<bigint | string, Float32Array> = new Map();
  readonly applied: Applied[] = [];
  /** How many calls were refused because they were cut by an older placement. */
  refusedCount = 0;
  /** Whether a server that is asked has its parameters from a checkpoint. */
  isRestored: (rank: number) => boolean = () => true;
  /** How many calls may wait for a server. */
  queuedMax = 1_000_000;
  readonly #queues: Call[][];
  readonly #waiters: (() => void)[] = [];
  #view: PlacementView;
  #placement: Placement;
  #onPlacement: (placement: PlacementView) => void = () => {};
  readonly #nodes: RosterView["nodes"];
  readonly #follow: (roster: RosterView) => void;

  /** The placement begins with the first `namedCount` servers: the roster names those alone. */
  constructor(
    serverCount: number,
    clock: SimClock = new SimClock(),
    policy: PlacementView["policy"] = "ring",
    namedCount: number = serverCount,
  ) {
    this.clock = clock;
    const servers = Array.from({ length: serverCount }, (_, rank) => rank);
    this.#queues = servers.map(() => []);
    this.#view = { epoch: 1, policy, servers: servers.slice(0, namedCount) };
    this.#placement = placementOf(this.#view);
    const channels = servers.map((rank) => this.#channel(rank));
    let follow: (roster: RosterView) => void = () => {};
    this.router = new Router({
      peer: {
        dial: (node) => channels[servers.findIndex((rank) => idOf("server", rank) === node)] as Channel,
        drop: (channel, error) => channel.failCalls(error),
      },
      membership: {
        onRoster: (listener) => {
          follow = listener;
          return () => {};
        },
        onPlacement: (listener) => {
          this.#onPlacement = listener;
          return () => {};
        },
        adoptPlacement: (placement) => this.#onPlacement(placement),
        fatal: undefined,
      },
      clock: this.clock,
      startTimeoutMs: START_TIMEOUT_MS,
      waits: new OpenWaits(clock),
    });
    this.#nodes = servers.map((rank) => ({
      ...{ node: idOf("server", rank), role: "server" as const, rank, address: "", label: "" },
      ...{ incarnation: INCARNATION, state: "alive" as const },
    }));
    this.#follow = follow;
    this.name(namedCount);
    this.#onPlacement(this.#view);
    this.functions = new FunctionClient(this.router);
  }

  /** A tensor that was found on every server. */
  tensor(name: string, parameter: number, shape: readonly number[], arena: Arena): Tensor {
    const spec = tensorSpec(name, { shape, optimizer: "sum" });
    const control = this.#control(spec, parameter);
    return new Tensor(spec, {
      functions: this.functions,
      control,
      shape: new TensorShape(shape),
      rowPlanner: RowPlanner.among(arena, [0], 1),
    });
  }

  /** A table that was found on every server. */
  table(name: string, parameter: number, planner: RowPlanner): Embedding {
    const spec = embeddingSpec(name, { dim: ROW_FLOATS, optimizer: "sum" });
    const control = this.#control(spec, parameter);
    return new Embedding(spec, { functions: this.functions, control, planner, caches: new Set(), openCache: undefined });
  }

  #control(spec: ParameterSpec, parameter: number): ParameterControl {
    const { functions, pushes, workerClock: clock } = this;
    const catalogue = undefined as unknown as CatalogueClient; // nothing is made or cleared
    const control = new ParameterControl({ functions, catalogue, parameter, spec, scan: NO_SCAN, clock, pushes });
    for (const rank of this.router.servers) control.handle.found(rank, INCARNATION);
    return control;
  }

  /** All servers adopt this placement. The worker learns of it by the next refusal, or by `publish`. */
  change(servers: readonly number[], moved?: readonly number[]): void {
    this.#view = { epoch: this.#view.epoch + 1, policy: this.#view.policy, servers, moved };
    this.#placement = placementOf(this.#view);
  }

  /** A roster comes that names so many servers. */
  name(count: number): void {
    this.#follow({ version: count, nodes: this.#nodes.slice(0, count), placement: this.#view });
  }

  /** This server has left, and others have its parts: the roster says both. Its next `left` calls had left for it. */
  async leave(rank: number, left: number): Promise<void> {
    this.change(this.#view.servers.filter((other) => other !== rank));
    for (const call of this.queueOf(rank).slice(0, left)) call.sendCount = 1;
    const nodes = this.#nodes.filter((entry) => entry.rank !== rank);
    this.#follow({ version: this.#view.epoch, nodes, placement: this.#view });
    this.publish();
    await this.clock.advance(0);
  }

  publish(): void {
    this.#onPlacement(this.#view);
  }

  get queuedCount(): number {
    return this.#queues.reduce((count, queue) => count + queue.length, 0);
  }

  queueOf(rank: number): readonly Call[] {
    return this.#queues[rank] ?? [];
  }

  /** The next call to this server happens. */
  async step(rank: number): Promise<void> {
    const call = this.#queues[rank]?.shift();
    if (call !== undefined) this.#serve(rank, call);
    if (this.#queues.every((queue) => queue.length <= this.queuedMax / 2)) for (const ready of this.#waiters.splice(0)) ready();
    await this.clock.advance(0);
  }

  /** The next call to this server fails: its link is lost. */
  async lose(rank: number): Promise<void> {
    const message = `server ${rank} could not be reached for too long`;
    this.#queues[rank]?.shift()?.failed(new WeighbridgeError("LINK_LOST", message, { outcome: "unknown" }));
    await this.clock.advance(0);
  }

  /** The next call to this server happens, and its answer is lost: the part that it is about has left. */
  async loseAnswer(rank: number): Promise<void> {
    const call = this.#queues[rank]?.shift();
    if (call !== undefined)
      this.#serve(rank, call, (of) => of.failed(new WeighbridgeError("ANSWER_LOST", "it was applied", { outcome: "applied" })));
    await this.clock.advance(0);
  }

  /** The next call to this server waits there; what is returned lets it happen. */
  park(rank: number): () => Promise<void> {
    const call = this.#queues[rank]?.shift();
    return async () => {
      if (call !== undefined) this.#serve(rank, call);
      await this.clock.advance(0);
    };
  }

  /** Everything happens, in the order of the servers. */
  async drain(): Promise<void> {
    await this.clock.advance(0);
    for (let turn = 0; this.queuedCount > 0; turn++) {
      assert(turn < 10_000, "requests go round in circles");
      for (const rank of this.#queues.keys()) await this.step(rank);
    }
  }

  #channel(rank: number): Channel {
    const queue = this.#queues[rank] as Call[];
    const admits = (count: number): boolean => queue.length + count <= this.queuedMax || queue.length <= this.queuedMax / 2;
    const channel = {
      id: idOf("server", rank),
      incarnation: INCARNATION,
      since: INCARNATION,
      name: `server ${rank}`,
      admits,
      checkRoom: (count: number): void => assert(admits(count), "kv requests fill no queue here"),
      send: (call: Call): void => void queue.push(call),
      whenRoom: (ready: () => void): void => void this.#waiters.push(ready),
      failCalls: (error: WeighbridgeError): void => {
        for (const call of queue.splice(0)) call.failed(error);
      },
      failLeft: (): void => {
        for (const call of queue.splice(0)) call.failed(leftError(idOf("server", rank), call, call.sendCount > 0));
      },
    };
    return channel as unknown as Channel;
  }

  #serve(rank: number, call: Call, answer: (call: Call, bytes: Uint8Array) => void = reply): void {
    if (!call.isIntact) return;
    if (call.epoch !== 0 && call.epoch < this.#view.epoch) {
      this.refusedCount++;
      const text = `cut by epoch ${call.epoch}, and the servers have ${this.#view.epoch}`;
      call.failed(new WeighbridgeError("WRONG_EPOCH", text, { detail: this.#view }));
      return;
    }
    const { header, payload } = frameOf(call);
    answer(call, header.functionId === FunctionId.FUNCTION ? this.#function(rank, header, payload) : this.#kv(rank, header, payload));
  }

  #kv(rank: number, header: FrameHeader, payload: Uint8Array): Uint8Array {
    const { arg0: keyCount, arg1: width, arg2: offset, functionId, flags } = header;
    const keys = new BigUint64Array(payload.slice(0, 8 * keyCount).buffer);
    const sent = new Float32Array(payload.slice(8 * keyCount).buffer);
    const { servers } = this.#view;
    const range = evenRanges(servers.length)[servers.indexOf(rank)];
    const isPiece = (flags & KvFlag.PIECE) !== 0;
    for (const key of keys)
      assert(header.epoch === 0 || (range !== undefined && key >= range.begin && key < range.end), `key ${key} is not server ${rank}'s`);
    const from = isPiece ? offset : 0;
    const count = isPiece ? (functionId === FunctionId.KV_PULL ? Math.min(131_072, width - offset) : sent.length) : width;
    if (sent.length > 0) {
      for (const [i, key] of keys.entries()) this.#add(key, width, sent.subarray(i * count, (i + 1) * count), from);
      this.applied.push({ server: rank, what: `kv ${keys.join(" ")}`, clock: sent[0] as number });
    }
    if (functionId === FunctionId.KV_PUSH) return new Uint8Array(0);
    const out = new Float32Array(keyCount * count);
    for (const [i, key] of keys.entries()) out.set(this.#valuesOf(key, width).subarray(from, from + count), i * count);
    return new Uint8Array(out.buffer);
  }

  #function(rank: number, header: FrameHeader, payload: Uint8Array): Uint8Array {
    const fn = CONTRACTS.find(({ nameHash }) => nameHash === header.command);
    assert(fn !== undefined, "the stage has the function");
    const request = fn.request.decode(payload.slice(), 0, payload.length) as unknown as Request;
    const { parameter, block, clock = 0 } = request;
    if (fn.name === parameterState.name)
      return joinBytes(parameterState.response.encode({ ...STATE, isRestored: this.isRestored(rank) }).chunks);
    if (block !== undefined) return this.#block(rank, fn, request, `${parameter}/${block}`);
    const pushed = request.pushKeys ?? (request.gradients === undefined ? undefined : request.keys);
    const pulled = request.pullKeys ?? (request.gradients === undefined ? request.keys : undefined);
    this.#checkOwned(rank, [...(pushed ?? []), ...(pulled ?? [])]);
    const width = (request.gradients?.length ?? 0) / (pushed?.length ?? 1);
    for (const [i, key] of (pushed ?? []).entries())
      this.#add(`row ${key}`, width, (request.gradients as Float32Array).subarray(i * width, (i + 1) * width));
    if (fn.isUpdate) this.applied.push({ server: rank, what: pushed === undefined ? fn.name : `rows ${[...pushed].join(" ")}`, clock });
    if (fn.name === sspSync.name) return joinBytes(sspSync.response.encode({ version: 0 }).chunks);
    if (pulled === undefined) return new Uint8Array(0);
    const rows = joinBytes([...pulled].map((key) => bytesOf(this.#valuesOf(`row ${key}`, ROW_FLOATS))));
    return encoded(fn, { values: new Float32Array(rows.slice().buffer) });
  }

  #block(rank: number, fn: Contract, { parameter, block, clock, gradients }: Request, name: string): Uint8Array {
    const owner = this.#placement.ownerOf(partOf(block as number, parameter));
    assert(owner === rank, `block ${name} is server ${owner}'s`);
    if (gradients !== undefined) {
      this.#add(name, gradients.length, gradients);
      this.applied.push({ server: rank, what: `block ${name}`, clock: clock ?? 0 });
    }
    return fn.response.isEmpty ? new Uint8Array(0) : encoded(fn, { values: this.#valuesOf(name, 0).slice() });
  }

  #checkOwned(rank: number, keys: readonly bigint[]): void {
    for (const key of keys) {
      const owner = this.#placement.ownerOf(partOf(Number(key & 0xffff_ffffn), Number(key >> 32n)));
      assert(owner === rank, `key ${key} is server ${owner}'s, and server ${rank} is asked`);
    }
  }

  #valuesOf(key: bigint | string, width: number): Float32Array {
    const known = this.values.get(key) ?? new Float32Array(width);
    this.values.set(key, known);
    return known;
  }

  #add(key: bigint | string, width: number, floats: Float32Array, at = 0): void {
    const values = this.#valuesOf(key, width);
    floats.forEach((value, i) => {
      values[at + i]! += value;
    });
  }
}

type Request = {
  readonly parameter: number;
  readonly block?: number;
  readonly clock?: number;
  readonly keys?: BigUint64Array;
  readonly pushKeys?: BigUint64Array;
  readonly pullKeys?: BigUint64Array;
  readonly gradients?: Float32Array;
};

function frameOf(call: Call): { readonly header: FrameHeader; readonly payload: Uint8Array } {
  const batch = new EncodedFrames(new PagePool());
  const sent = new FrameHeader().reset(Kind.REQUEST, call.functionId);
  sent.epoch = call.epoch;
  call.encode(sent, batch);
  const link = new StubLink();
  const taken = batch.take();
  link.write(taken.chunks, () => taken.flushed());
  const [frame] = link.take();
  assert(frame !== undefined, "a call is a frame");
  return frame;
}

function reply(call: Call, payload: Uint8Array): void {
  const header = new FrameHeader().reset(Kind.REPLY, call.functionId);
  header.payloadBytes = payload.length;
  setExtent(header, payload.length, 0);
  const bytes = new Uint8Array(payload.length + 8);
  bytes.set(payload);
  if (payload.length > IN_PLACE_BYTES_MAX) call.destination(header)?.set(payload);
  call.answered(header, bytes, 0);
}

function encoded(fn: Contract, values: { readonly values: Float32Array }): Uint8Array {
  return joinBytes(fn.response.encode(values as never).chunks);
}

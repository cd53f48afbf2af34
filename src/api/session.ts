// session — a worker's place in a cluster, as a user meets it: names of parameters become tensors and embeddings, `clock` ends an iteration.
// Not the node itself: that is started before (node/connect.ts) and given here.
//
// Invariants:
//   S1. Two workers that describe one parameter differently: the second gets SPEC_MISMATCH with the differences, and nothing changes.
//   S2. `clock` never waits. It travels behind everything this worker sent before it.
//   S3. A worker that was taken for dead and lives, or whose server was restarted, joins the clock set again by itself; the call that found it
//       out fails with NOT_JOINED, and may be repeated.

import type { Clock } from "../base/clock.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { clockAdvance, clockJoin, clockLeave } from "../functions/parameters/clock-functions.ts";
import { parameterCreate, parameterList } from "../functions/parameters/parameter-functions.ts";
import type { PsFunction } from "../functions/ps-function.ts";
import { Arena } from "../kernel/arena.ts";
import { hashText } from "../keys/hash-text.ts";
import { type Placement, partOf } from "../keys/placement.ts";
import { rangePlacement } from "../keys/range-placement.ts";
import { type InitializerSpec, resolveInitializer } from "../store/initializers/initializer-spec.ts";
import { decodeParameterSpec, type ParameterSpec, parameterNumber, type TableSpec, type TensorSpec } from "../store/parameter-spec.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import { type OptimizerSpec, resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { Group } from "../wire/node-id.ts";
import { type FunctionCallSettings, FunctionClient } from "../worker/function-client.ts";
import { RowPlanner } from "../worker/row-plan.ts";
import { TableClient } from "../worker/table-client.ts";
import { TensorClient } from "../worker/tensor-client.ts";
import type { Worker } from "../worker/worker.ts";
import { type Consistency, engineConsistency } from "./consistency.ts";
import { Embedding } from "./embedding.ts";
import { ParameterControl } from "./parameter-control.ts";
import { Tensor } from "./tensor.ts";

/** The node under a session; ps-lite's words call it a post office. */
export type ClusterNode = {
  readonly worker: Worker | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly role: string;
  readonly myRank: number;
  readonly numServers: number;
  readonly numWorkers: number;
  barrier(customerId: number, group: number, wait?: WaitOptions): Promise<void>;
  finalize(options?: { readonly barrier?: boolean } & WaitOptions): Promise<void>;
  close(): Promise<void>;
};

type CommonOptions = {
  /** How elements begin. Defaults to zeros. */
  readonly init?: InitializerSpec;
  /** What the servers do with a gradient. Defaults to adding it. */
  readonly optimizer?: OptimizerSpec;
  /** Defaults to "asp". */
  readonly consistency?: Consistency;
};

export type TensorOptions = CommonOptions & { readonly shape: readonly number[] };

export type EmbeddingOptions = CommonOptions & {
  /** Elements of a row. */
  readonly dim: number;
  /** A table of fixed size: keys are below this, and others are errors. Left out, every u64 is a key. */
  readonly rows?: number;
  /** Counts the updates of each row, as caches with a bound need it. Defaults to false. */
  readonly versions?: boolean;
};

/** Where a function of the user's own is called. */
export type FunctionTarget = { readonly server: number } | { readonly key: bigint };

/** CLOCK leaves after everything else. */
const LAST_PRIORITY = -(2 ** 31);

export class Session {
  readonly #node: ClusterNode;
  readonly #functions: FunctionClient;
  readonly #placement: Placement;
  readonly #planner: RowPlanner;
  #clock = 0;
  #isJoining = false;

  private constructor(node: ClusterNode, worker: Worker) {
    this.#node = node;
    this.#functions = new FunctionClient(worker, node.clock);
    this.#placement = rangePlacement({ servers: Array.from({ length: node.numServers }, (_, rank) => rank), epoch: 0 });
    this.#planner = new RowPlanner(new Arena({ shared: false }), this.#placement, hashText(`${node.myRank}`));
  }

  /** Joins the clock set of every server. Throws BAD_ARGUMENT on a node that is no worker, or without servers. */
  static async open(node: ClusterNode, wait: WaitOptions = {}): Promise<Session> {
    const { worker } = node;
    if (worker === undefined) throw new WeighbridgeError("BAD_ARGUMENT", `a session needs a worker node, but this is the ${node.role}`);
    if (node.numServers === 0) throw new WeighbridgeError("BAD_ARGUMENT", "a session needs servers, and this cluster has none");
    const session = new Session(node, worker);
    await session.#join(wait);
    session.#functions.onFailure = (error) => session.#joinAgain(error);
    return session;
  }

  /** This worker's number, from 0. */
  get rank(): number {
    return this.#node.myRank;
  }

  get workerCount(): number {
    return this.#node.numWorkers;
  }

  get serverCount(): number {
    return this.#node.numServers;
  }

  /** How many clocks this worker has finished. */
  get clocks(): number {
    return this.#clock;
  }

  /** The tensor of this name, made if it is not there yet. Throws SPEC_MISMATCH when somebody described it differently (S1). */
  async tensor(name: string, options: TensorOptions, wait: WaitOptions = {}): Promise<Tensor> {
    const shape = new TensorShape(options.shape);
    const spec: TensorSpec = { kind: "tensor", name, shape: options.shape, ...commonSpec(options) };
    const { parameter, control } = await this.#create(spec, wait);
    const client = new TensorClient({ functions: this.#functions, placement: this.#placement, name, parameter, shape });
    return new Tensor(spec, client, control);
  }

  /** The table of this name, made if it is not there yet. Throws SPEC_MISMATCH when somebody described it differently (S1). */
  async embedding(name: string, options: EmbeddingOptions, wait: WaitOptions = {}): Promise<Embedding> {
    const { dim, rows, versions = false } = options;
    const spec: TableSpec = { kind: "table", name, width: dim, rows, versions, ...commonSpec(options) };
    const { parameter, control } = await this.#create(spec, wait);
    const client = new TableClient({ functions: this.#functions, planner: this.#planner, name, parameter, width: dim, rowCountMax: rows });
    return new Embedding(spec, client, control);
  }

  /** Calls a function that the servers were started with, on one of them. Its errors come back as errors. */
  async call<Q extends Fields, R extends Fields>(
    fn: PsFunction<Q, R>,
    target: FunctionTarget,
    request: FieldValues<Q>,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<FieldValues<R>> {
    return await this.#functions.call(fn, this.#serverOf(target), request, options);
  }

  /** Calls a function of every server; the answers in the order of their ranks. */
  async callAll<Q extends Fields, R extends Fields>(
    fn: PsFunction<Q, R>,
    request: FieldValues<Q>,
    options: FunctionCallSettings & WaitOptions = {},
  ): Promise<FieldValues<R>[]> {
    return await this.#functions.callAll(fn, request, options);
  }

  /** Ends this worker's iteration and begins the next one, whose number is returned (S2). */
  clock(): number {
    this.#clock++;
    this.#functions.callAll(clockAdvance, { clock: this.#clock }, { priority: LAST_PRIORITY }).catch((thrown: unknown) => {
      this.#node.log.warn("a server did not hear of the end of a clock", { clock: this.#clock, reason: reasonOf(thrown) });
    });
    return this.#clock;
  }

  /** Waits until every worker stands here. Rejects with NODE_DEAD when one dies meanwhile. */
  async barrier(wait?: WaitOptions): Promise<void> {
    await this.#node.barrier(0, Group.WORKERS, wait);
  }

  /** The specs of all parameters there are. */
  async parameters(wait: WaitOptions = {}): Promise<readonly ParameterSpec[]> {
    const lists = await this.#functions.callAll(parameterList, {}, wait);
    const specs = new Map<string, ParameterSpec>();
    for (const { specs: json } of lists) {
      for (const spec of JSON.parse(json) as unknown[]) {
        const checked = decodeParameterSpec(JSON.stringify(spec));
        specs.set(checked.name, checked);
      }
    }
    return [...specs.values()];
  }

  /** Leaves the clock set and the cluster; by default together with all other nodes, so that servers stay until the last worker is done. */
  async close(options: { readonly barrier?: boolean } & WaitOptions = {}): Promise<void> {
    try {
      await this.#functions.callAll(clockLeave, {}, { ...options, priority: LAST_PRIORITY });
    } finally {
      await this.#node.finalize(options);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** A worker that comes late stands where the slowest does; servers may differ in that, and the highest holds for all. */
  async #join(wait: WaitOptions): Promise<void> {
    const clocks = (await this.#functions.callAll(clockJoin, {}, wait)).map(({ clock }) => clock);
    this.#clock = Math.max(this.#clock, ...clocks);
    if (clocks.some((clock) => clock < this.#clock)) await this.#functions.callAll(clockAdvance, { clock: this.#clock }, wait);
  }

  /** S3 */
  #joinAgain({ code }: WeighbridgeError): void {
    if (code !== "NOT_JOINED" || this.#isJoining) return;
    this.#isJoining = true;
    this.#join({})
      .catch((thrown: unknown) => this.#node.log.warn("joining the clock set again failed", { reason: reasonOf(thrown) }))
      .finally(() => {
        this.#isJoining = false;
      });
  }

  async #create(spec: ParameterSpec, wait: WaitOptions): Promise<{ parameter: number; control: ParameterControl }> {
    const checked = decodeParameterSpec(JSON.stringify(spec));
    const parameter = parameterNumber(checked.name);
    await this.#functions.callAll(parameterCreate, { spec: JSON.stringify(checked) }, wait);
    return { parameter, control: new ParameterControl({ functions: this.#functions, parameter, spec: checked, clock: () => this.#clock }) };
  }

  #serverOf(target: FunctionTarget): number {
    if ("server" in target) {
      const { server } = target;
      if (Number.isInteger(server) && server >= 0 && server < this.serverCount) return server;
      throw new WeighbridgeError("NO_ROUTE", `there are servers 0 to ${this.serverCount - 1}, and no server ${server}`);
    }
    const { key } = target;
    return this.#placement.ownerOf(partOf(Number(key & 0xffff_ffffn), Number((key >> 32n) & 0xffff_ffffn)));
  }
}

function commonSpec(options: CommonOptions): Omit<TensorSpec, "kind" | "name" | "shape"> {
  const { init = { type: "constant", value: 0 }, optimizer = { type: "sum" }, consistency = "asp" } = options;
  return { initializer: resolveInitializer(init), optimizer: resolveOptimizer(optimizer), ...engineConsistency(consistency) };
}

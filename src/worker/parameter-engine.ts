// parameter-engine — what lies behind a session: the worker's clock, calls of functions, the handles of its parameters
// and their links. api/session.ts offers it in a user's words and imports only its types: the worker brings it along.

import type { Clock } from "../base/clock.ts";
import { allEnded, type WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { Arena } from "../kernel/arena.ts";
import { addRows } from "../kernel/element-loops.ts";
import { FiniteScan } from "../kernel/finite-scan.ts";
import type { RowElement } from "../kernel/row-element.ts";
import { rowJoin } from "../kernel/row-joins.ts";
import { hashText } from "../keys/mix.ts";
import {
  decodeParameterSpec,
  isDescribed,
  type ParameterSpec,
  type TableSpec,
  type TensorSpec,
  type Wanted,
} from "../store/parameter-spec.ts";
import type { PsRowType } from "../store/row-types/ps-row-type.ts";
import { checkOpened, elementOf, rowElements } from "../store/row-types/row-type-spec.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import { mergeOf } from "../store/updaters/optimizer-spec.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import type { CachedEmbedding, CacheOpener } from "./cache/cached-embedding.ts";
import type { CatalogueClient } from "./catalogue-client.ts";
import type { Collective } from "./collective.ts";
import { Embedding } from "./embedding.ts";
import { FunctionClient } from "./function-client.ts";
import type { UpdateHolder } from "./held-updates.ts";
import type { OpenParameter } from "./parameter.ts";
import { ParameterControl } from "./parameter-control.ts";
import { RowPlanner } from "./router/row-plan.ts";
import type { Router } from "./router.ts";
import { Tensor } from "./tensor.ts";
import { PushNumbers, WorkerClock } from "./worker-clock.ts";
import { WorkerLinks } from "./worker-links.ts";
import type { WorkerMesh } from "./worker-mesh.ts";

export type ParameterEngineOptions = {
  readonly clock: Clock;
  readonly log: Log;
  /** Of the worker. */
  readonly rank: number;
  /** For parameters whose links ask for it. */
  readonly compression?: GeneralCompression | undefined;
} & LoadedOnDemand;

/** What few sessions need: in Node it is loaded by the first that does. */
export type LoadedOnDemand = {
  /** As `Collective.open`. */
  readonly openCollective: (mesh: WorkerMesh, wait: WaitOptions) => Promise<Collective>;
  /** Called when a table is opened that counts versions. */
  readonly loadCaches: () => Promise<CacheOpener>;
};

export class ParameterEngine implements UpdateHolder {
  readonly functions: FunctionClient;
  readonly clock: WorkerClock;
  /** Joins the other workers, once all that live have called it. */
  readonly openCollective: LoadedOnDemand["openCollective"];
  readonly #loadCaches: LoadedOnDemand["loadCaches"];
  readonly #router: Router;
  readonly #catalogue: CatalogueClient;
  readonly #planner: RowPlanner;
  readonly #tensorRows: RowPlanner;
  readonly #scan: FiniteScan;
  readonly #links: WorkerLinks;
  /** Of which top-k keeps something: the handle of each that was opened last. */
  readonly #keeping = new Map<string, Tensor>();
  /** Those that are open: they are closed before the session is. */
  readonly #caches = new Set<CachedEmbedding>();
  readonly #pushes = new PushNumbers();
  /** Whether clocks bind a parameter that was opened: its updates are sync, or its reads have a bound. */
  isBoundByClocks = false;

  constructor(router: Router, catalogue: CatalogueClient, options: ParameterEngineOptions) {
    const { clock, log, rank, compression } = options;
    this.openCollective = options.openCollective;
    this.#loadCaches = options.loadCaches;
    this.#router = router;
    this.#catalogue = catalogue;
    this.functions = new FunctionClient(router);
    this.#planner = new RowPlanner(new Arena({ shared: false }), router, hashText(`${rank}`));
    this.#tensorRows = RowPlanner.among(this.#planner.arena, [0], this.#planner.secret);
    this.#scan = new FiniteScan(this.#planner.arena);
    this.#links = new WorkerLinks({ functions: this.functions, planner: this.#planner, compression });
    this.clock = new WorkerClock({
      name: `worker ${rank}`,
      clock,
      functions: this.functions,
      router,
      log,
      pushes: this.#pushes,
      joiningAgain: () => this.#links.forgetKeyLists(),
    });
  }

  /** Joins the clock set of every server, and from then on each that is started again. */
  async join(wait: WaitOptions): Promise<void> {
    await this.clock.join(wait);
    this.#router.onFailure = (error) => this.clock.joinAgain(error);
    this.functions.explainFailure = (error, allowed) => this.clock.explained(error, allowed);
    this.#router.serverCame = (server) => this.clock.serverCame(server);
  }

  /** Throws SPEC_MISMATCH when somebody described it differently, UNKNOWN_PARAMETER for a name that nobody has made. */
  async tensor(wanted: Wanted<TensorSpec>, wait: WaitOptions): Promise<Tensor> {
    if (isDescribed(wanted)) new TensorShape(wanted.shape); // throws before anything is made
    const { spec, ...open } = await this.#open(wanted, wait);
    const tensor = new Tensor(spec, { ...open, shape: new TensorShape(spec.shape), rowPlanner: this.#tensorRows });
    if (open.link?.kept !== undefined) this.#keeping.set(spec.name, tensor);
    else this.#keeping.delete(spec.name);
    return tensor;
  }

  /**
   * As `tensor`. `dtype`: what the caller says that its rows are made of. Throws SPEC_MISMATCH, also for one that is
   * opened by its name and has another; UNSUPPORTED for rows of a user's own type without it.
   */
  async embedding<E extends RowElement>(
    wanted: Wanted<TableSpec>,
    wait: WaitOptions,
    dtype?: RowElement | PsRowType,
  ): Promise<Embedding<E>> {
    const { spec, ...open } = await this.#open(wanted, wait);
    checkOpened(spec, dtype ?? (isDescribed(wanted) ? "f32" : undefined));
    const rowType = typeof dtype === "object" ? dtype : undefined;
    const [element, { arena }, merge] = [elementOf(spec), this.#planner, mergeOf(spec.optimizer)];
    const rows = { arena, element, width: rowElements(spec), merge, rowType: rowType ?? { name: element, add: addRows } };
    const openCache = spec.versions ? await this.#loadCaches() : undefined;
    const ofTable = { planner: this.#planner, merge: spec.rowType === undefined ? merge : rowJoin(rows) };
    return new Embedding<E>(spec, { ...open, ...ofTable, caches: this.#caches, openCache });
  }

  async #open<S extends ParameterSpec>(wanted: Wanted<S>, wait: WaitOptions): Promise<OpenParameter & { readonly spec: S }> {
    const checked = isDescribed(wanted) ? (decodeParameterSpec(JSON.stringify(wanted)) as S) : wanted;
    if (isDescribed(checked)) this.#links.check(checked);
    const { functions, clock } = this;
    const common = { functions, catalogue: this.#catalogue, scan: this.#scan, clock, pushes: this.#pushes };
    const { control, spec } = await ParameterControl.open<S>(common, checked, wait);
    this.isBoundByClocks ||= spec.updates === "sync" || spec.staleness !== undefined;
    return { functions, control, spec, link: this.#links.of(spec, control.handle) };
  }

  // UpdateHolder

  get hasHeld(): boolean {
    return (
      [...this.#caches].some((cache) => cache.statistics().rowsPending > 0) ||
      [...this.#keeping.values()].some((tensor) => tensor.hasResidual)
    );
  }

  async sendHeld(): Promise<void> {
    await allEnded([...[...this.#caches].map((cache) => cache.flush()), this.#flushKept({})]);
  }

  /** Closes the caches, and sends what top-k has kept of all tensors. */
  async flush({ timeoutMs, signal }: WaitOptions): Promise<void> {
    await Promise.all([...this.#caches].map((cache) => cache.close({ timeoutMs, signal })));
    await this.#flushKept({ timeoutMs, signal });
  }

  /** Of a tensor that was cleared, or lost with its server, nothing is left to send to. */
  async #flushKept(wait: WaitOptions): Promise<void> {
    const call = { clock: this.clock.value, ...wait };
    await allEnded(
      [...this.#keeping.values()].map((tensor) =>
        tensor.flushAt(call).catch((thrown: unknown) => {
          if (!isWeighbridgeError(thrown, "UNKNOWN_PARAMETER")) throw thrown;
        }),
      ),
    );
  }
}

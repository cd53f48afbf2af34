// session-engine — what lies behind a session of a worker: its clock, the calls of functions, the clients of its parameters and what their links carry. A session
// (api/session.ts) says all of it in a user's words, and knows this file by its types alone: the worker brings it along.

import type { Clock } from "../base/clock.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { Arena } from "../kernel/arena.ts";
import { addRows } from "../kernel/element-loops.ts";
import { FiniteScan } from "../kernel/finite-scan.ts";
import { rowJoin } from "../kernel/row-joins.ts";
import { hashText } from "../keys/mix.ts";
import { decodeParameterSpec, type ParameterSpec, type TableSpec, type TensorSpec } from "../store/parameter-spec.ts";
import type { PsRowType } from "../store/row-types/ps-row-type.ts";
import { elementOf, rowElements, rowWords } from "../store/row-types/row-type-spec.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import { mergeOf } from "../store/updaters/optimizer-spec.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import type { CatalogueClient } from "./catalogue-client.ts";
import { Collective } from "./collective.ts";
import { allEnded, FunctionClient } from "./function-client.ts";
import { ParameterControl } from "./parameter-control.ts";
import { RowPlanner } from "./router/row-plan.ts";
import type { Router } from "./router.ts";
import { TableClient } from "./table-client.ts";
import { TensorClient } from "./tensor-client.ts";
import { PushNumbers, WorkerClock } from "./worker-clock.ts";
import { WorkerLinks } from "./worker-links.ts";
import type { WorkerMesh } from "./worker-mesh.ts";

export type SessionEngineOptions = {
  readonly clock: Clock;
  readonly log: Log;
  /** Of the worker. */
  readonly rank: number;
  /** For parameters whose links ask for it. */
  readonly compression?: GeneralCompression | undefined;
};

/** A parameter that was made or opened: the calls of its data, and what is changed for everybody. */
export type OpenParameter<Client> = { readonly client: Client; readonly control: ParameterControl };

export class SessionEngine {
  readonly functions: FunctionClient;
  readonly clock: WorkerClock;
  readonly #router: Router;
  readonly #catalogue: CatalogueClient;
  readonly #planner: RowPlanner;
  readonly #scan: FiniteScan;
  readonly #links: WorkerLinks;
  /** Of which top-k keeps something: the handle of each that was opened last. */
  readonly #keeping = new Map<string, TensorClient>();
  readonly #pushes = new PushNumbers();

  constructor(router: Router, catalogue: CatalogueClient, { clock, log, rank, compression }: SessionEngineOptions) {
    this.#router = router;
    this.#catalogue = catalogue;
    this.functions = new FunctionClient(router);
    this.#planner = new RowPlanner(new Arena({ shared: false }), router, hashText(`${rank}`));
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
    this.#router.serverRestarted = (server) => this.clock.serverRestarted(server);
  }

  /** Throws SPEC_MISMATCH when somebody described it differently. */
  async tensor(spec: TensorSpec, wait: WaitOptions): Promise<OpenParameter<TensorClient>> {
    const shape = new TensorShape(spec.shape);
    const control = await this.#open(spec, wait);
    const { held } = control;
    const link = this.#links.of(spec, held);
    const { arena } = this.#planner;
    const client = new TensorClient({ functions: this.functions, held, shape, link, arena, merge: mergeOf(spec.optimizer) });
    if (link?.kept !== undefined) this.#keeping.set(spec.name, client);
    else this.#keeping.delete(spec.name);
    return { client, control };
  }

  /** As `tensor`. `rowType`: a user's own, which the spec names. */
  async table(spec: TableSpec, wait: WaitOptions, rowType?: PsRowType): Promise<OpenParameter<TableClient>> {
    const { rows: rowCountMax, optimizer } = spec;
    const control = await this.#open(spec, wait);
    const { held } = control;
    const link = this.#links.of(spec, held);
    const [element, { arena }] = [elementOf(spec), this.#planner];
    const rows = {
      arena,
      element,
      width: rowElements(spec),
      merge: mergeOf(optimizer),
      rowType: rowType ?? { name: element, add: addRows },
    };
    const merge = spec.rowType === undefined ? rows.merge : rowJoin(rows);
    const common = { functions: this.functions, planner: this.#planner, held };
    return { client: new TableClient({ ...common, width: rowWords(spec), rowCountMax, link, merge }), control };
  }

  async #open(spec: ParameterSpec, wait: WaitOptions): Promise<ParameterControl> {
    const checked = decodeParameterSpec(JSON.stringify(spec));
    this.#links.check(checked);
    const common = { functions: this.functions, catalogue: this.#catalogue, scan: this.#scan, clock: this.clock, pushes: this.#pushes };
    return await ParameterControl.open({ ...common, spec: checked }, wait);
  }

  /** Joins the other workers, once all that live have called it. */
  async openCollective(mesh: WorkerMesh, wait: WaitOptions): Promise<Collective> {
    return await Collective.open(mesh, wait);
  }

  /**
   * Sends what top-k has kept of all tensors. Of one that was cleared, or lost with its server, nothing is left to
   * send to.
   */
  async flushLinks({ deadlineMs, signal }: WaitOptions): Promise<void> {
    const call = { clock: this.clock.value, deadlineMs, signal };
    await allEnded(
      [...this.#keeping.values()].map((client) =>
        client.flushResidual(call).catch((thrown: unknown) => {
          if (!isWeighbridgeError(thrown, "UNKNOWN_PARAMETER")) throw thrown;
        }),
      ),
    );
  }
}

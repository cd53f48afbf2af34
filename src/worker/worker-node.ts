// worker-node — a worker of the cluster: it registers, keeps its links to the servers, and to the other workers once
// they reduce among themselves.

import { MemberNode } from "../cluster/member-node.ts";
import type { Membership } from "../cluster/membership.ts";
import type { MemberOptions } from "../cluster/node-options.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import type { Address } from "../transport/transport.ts";
import type { UpdateHolder } from "./held-updates.ts";
import { Worker } from "./worker.ts";
import type { WorkerMesh } from "./worker-mesh.ts";
import type { ServicesGround, WorkerServices } from "./worker-services.ts";

export type WorkerNodeOptions = MemberOptions & {
  /** Makes what sessions stand on; left out, none can be opened. */
  readonly sessions?: ((ground: ServicesGround) => WorkerServices) | undefined;
  /** Where a worker listens for other workers, once they reduce among themselves; left out or "": they cannot. */
  readonly meshAddress?: Address;
  /** A guest: not counted, without a rank, a clock or a part in barriers (docs/decisions/0069). */
  readonly isGuest?: boolean | undefined;
  /** What this worker serves before it registers, beside its sessions' functions; only those with a handler. */
  readonly functions?: readonly WorkerFunction[];
};

export class WorkerNode extends MemberNode {
  readonly #options: WorkerNodeOptions;
  #worker: Worker | undefined;

  constructor(options: WorkerNodeOptions) {
    const hasNoClock = (options.sessions === undefined && options.isGuest !== true) || undefined;
    super(
      options.isGuest === true ? "guest" : "worker",
      { ...options, hasNoClock },
      {
        readBuffers: new PlainReadBuffers(),
        limits: { answerBytesMax: Infinity, ...options.limits },
      },
    ); // Worker.S2
    this.#options = options;
  }

  /** The engine; undefined before the node registers. */
  get worker(): Worker | undefined {
    return this.#worker;
  }

  /** The links with the other workers; undefined before the node registers, and where no sessions are opened. */
  get mesh(): WorkerMesh | undefined {
    return this.#worker?.sessions?.mesh;
  }

  /** Whether a listener of a session waits for this worker to be asked to leave. */
  get awaitsLeaving(): boolean {
    return this.#worker?.sessions?.events.awaitsLeaving === true;
  }

  /** What its sessions keep back of their updates; undefined where none are opened. */
  get held(): UpdateHolder | undefined {
    return this.#worker?.sessions?.held;
  }

  /** Also while functions are served, requests wait to leave, or an operation among the workers is open. */
  override get isBusy(): boolean {
    const worker = this.#worker;
    if (worker === undefined || super.isBusy) return true;
    return worker.servedCount > 0 || worker.router.hasWaiting || this.mesh?.isBusy === true;
  }

  protected registering(membership: Membership): void {
    const { peer, clock, log, startTimeoutMs, waits } = this;
    const { meshAddress: listenAddress = "", advertise = (bound) => bound, sessions, functions = [] } = this.#options;
    const ground = { peer, membership, clock, log, listenAddress, advertise };
    const services = sessions && ((own: Pick<ServicesGround, "router">) => sessions({ ...ground, ...own }));
    this.#worker = new Worker({ peer, membership, clock, startTimeoutMs, waits, sessions: services });
    for (const fn of functions) if (fn.handle !== undefined) this.#worker.serve(fn);
  }

  protected async registered(): Promise<void> {}

  protected override async release(): Promise<void> {
    this.mesh?.close();
    this.#worker?.router.close();
    await super.release();
  }
}

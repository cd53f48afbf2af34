// worker-node — a worker of the cluster: it registers, keeps its links to the servers, and to the other workers once they reduce among themselves.

import { MemberNode } from "../cluster/member-node.ts";
import type { Membership } from "../cluster/membership.ts";
import type { MemberOptions } from "../cluster/node-options.ts";
import { PlainReadBuffers } from "../peer/plain-read-buffers.ts";
import type { Address } from "../transport/transport.ts";
import { Worker, type WorkerOptions } from "./worker.ts";
import { WorkerMesh } from "./worker-mesh.ts";

export type WorkerNodeOptions = MemberOptions &
  Pick<WorkerOptions, "sessions"> & {
    /** Where a worker listens for the other workers, from the first time on that they reduce among themselves; left out or "", they cannot. */
    readonly meshAddress?: Address;
  };

export class WorkerNode extends MemberNode {
  readonly #options: WorkerNodeOptions;
  #worker: Worker | undefined;
  #mesh: WorkerMesh | undefined;

  constructor(options: WorkerNodeOptions) {
    super("worker", options, { readBuffers: new PlainReadBuffers(), limits: options.limits ?? {} });
    this.#options = options;
  }

  /** The engine; undefined before the node registers. */
  get worker(): Worker | undefined {
    return this.#worker;
  }

  /** The links with the other workers; undefined before the node registers. */
  get mesh(): WorkerMesh | undefined {
    return this.#mesh;
  }

  protected registering(membership: Membership): void {
    const { peer, clock, log } = this;
    const { meshAddress: listenAddress = "", advertise = (bound) => bound, sessions } = this.#options;
    this.#worker = new Worker({ peer, membership, clock, sessions });
    this.#mesh = new WorkerMesh({ peer, membership, clock, log, listenAddress, advertise });
  }

  protected async registered(): Promise<void> {}

  protected override async release(): Promise<void> {
    this.#mesh?.close();
    await super.release();
  }
}

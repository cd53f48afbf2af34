// worker-node — a worker of the cluster: it registers, keeps its links to the servers, and to the other workers once they reduce among themselves.

import { MemberNode } from "../cluster/member-node.ts";
import type { Membership } from "../cluster/membership.ts";
import type { MemberOptions } from "../cluster/node-options.ts";
import { PlainReadBuffers } from "../peer/plain-read-buffers.ts";
import type { Address } from "../transport/transport.ts";
import type { GeneralCompression } from "../wire/codecs/general-compression.ts";
import { Worker } from "./worker.ts";
import { WorkerMesh } from "./worker-mesh.ts";

export type WorkerNodeOptions = MemberOptions & {
  /** Where a worker listens for the other workers, from the first time on that they reduce among themselves; left out or "", they cannot. */
  readonly meshAddress?: Address;
  /** For parameters whose links ask for it; left out, those cannot be made. */
  readonly compression?: GeneralCompression | undefined;
};

export class WorkerNode extends MemberNode {
  /** What the links of parameters are compressed with, where they ask for it. */
  readonly compression: GeneralCompression | undefined;
  readonly #options: WorkerNodeOptions;
  #worker: Worker | undefined;
  #mesh: WorkerMesh | undefined;

  constructor(options: WorkerNodeOptions) {
    super("worker", options, { readBuffers: new PlainReadBuffers(), limits: options.limits ?? {} });
    this.#options = options;
    this.compression = options.compression;
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
    const { meshAddress: listenAddress = "", advertise = (bound) => bound } = this.#options;
    this.#worker = new Worker({ peer, membership, clock });
    this.#mesh = new WorkerMesh({ peer, membership, clock, log, listenAddress, advertise });
  }

  protected async registered(): Promise<void> {}

  protected override async release(): Promise<void> {
    this.#mesh?.close();
    await super.release();
  }
}

// worker-mesh — the links of a worker with the other workers. Nothing listens and nothing is dialed before the first
// need; then each pair has one channel, and requests go both ways. The scheduler decides which workers take part, the
// collective what they send.
//
// Invariants:
//   WorkerMesh.W1. Of two workers the one with the higher rank dials the other, once both listen. Only workers may dial
//       a worker; if two dial each other, one connection is left (Peer.P7).
//   WorkerMesh.W2. A channel belongs to one incarnation of the other worker: when the roster knows a newer one, the old
//       channel ends, and what was open on it fails.
//   WorkerMesh.W3. Parts of operations reach the collective that takes part in them through the table of all functions
//       that this worker serves (Worker.S1): nothing is dispatched here.

import type { Clock } from "../base/clock.ts";
import { badRequest, unsupported, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Membership } from "../cluster/membership.ts";
import { collectivePart } from "../contracts/collective.ts";
import { GATHER } from "../contracts/coordination.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import type { Address } from "../transport/transport.ts";
import type { GatherReply, GatherRequest } from "../wire/collective-frame.ts";
import type { Generation, Member } from "../wire/generation.ts";
import { nameOf, rankOf, roleOf } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";

export type WorkerMeshOptions = {
  readonly peer: Peer;
  readonly membership: Membership;
  readonly clock: Clock;
  readonly log: Log;
  /** Where to listen for the others; "": this transport does not join workers with each other. */
  readonly listenAddress: Address;
  /** The address that the others dial, made from the one that was bound. */
  readonly advertise: (bound: Address) => Address;
};

/** Receives the parts of operations, and the members that are there. One at a time. */
export type MeshUser = FunctionHandler & {
  /** Whether an operation of this worker is open, or it waits for a generation. */
  readonly isBusy: boolean;
  follow(roster: RosterView): void;
  /** This node cannot go on. */
  ended(error: WeighbridgeError): void;
};

export class WorkerMesh {
  readonly clock: Clock;
  readonly log: Log;
  #user: MeshUser | undefined;
  readonly #peer: Peer;
  readonly #membership: Membership;
  readonly #options: WorkerMeshOptions;
  #listening: Promise<Address> | undefined;
  #isActive = false;
  /** The newest that this worker was in. It reports it to a restarted scheduler, unless it has left. */
  #gathered: Generation = { generation: 0, members: [] };
  #hasLeft = true;

  constructor(options: WorkerMeshOptions) {
    const { peer, membership, clock, log } = options;
    this.#options = options;
    this.#peer = peer;
    this.#membership = membership;
    this.clock = clock;
    this.log = log;
    membership.memory.generation = () => (this.#hasLeft ? undefined : this.#gathered);
    membership.onRoster((roster) => this.#follow(roster));
    membership.onFatal((error) => this.#user?.ended(error));
  }

  get rank(): number {
    return rankOf(this.#membership.node);
  }

  get roster(): RosterView {
    return this.#membership.roster;
  }

  /** Whether an operation among the workers needs this one. */
  get isBusy(): boolean {
    return this.#user?.isBusy === true;
  }

  /** Whether somebody takes part in operations among the workers. */
  get isUsed(): boolean {
    return this.#user !== undefined;
  }

  /**
   * From now on parts go to `user` (WorkerMesh.W3), until the next one comes; one that has stopped says why it takes
   * none.
   */
  use(user: MeshUser): void {
    this.#user = user;
    this.#peer.stopFrames(collectivePart);
    this.#peer.serveFrames(collectivePart, user);
  }

  /** `user` no longer learns who is there. */
  stop(user: MeshUser): void {
    if (this.#user === user) this.#user = undefined;
  }

  /** Those of the newest generation that this worker was in. */
  get lastMembers(): readonly Member[] {
    return this.#gathered.members;
  }

  /** Why this node cannot go on, if so. */
  get fatal(): WeighbridgeError | undefined {
    return this.#membership.fatal;
  }

  /**
   * Waits for the generation after those that this worker was in, with everybody who is to be in it. The first time,
   * this worker begins to listen. Throws UNSUPPORTED on a transport that does not join workers with each other.
   */
  async gather(): Promise<GatherReply> {
    this.#listening ??= this.#listen().catch((thrown: unknown) => {
      this.#listening = undefined; // the next call tries again
      throw thrown;
    });
    const address = await this.#listening;
    const reply = await this.#request({ step: "enter", address, generation: this.#gathered.generation });
    const { generation, members } = reply;
    this.#gathered = { generation, members };
    this.#hasLeft = false;
    return reply;
  }

  /** The workers that wait for the next generation. */
  async look(): Promise<GatherReply> {
    return await this.#request({ step: "look", address: "", generation: 0 });
  }

  /** This worker is to be in no further generation. */
  async leave(): Promise<void> {
    this.#hasLeft = true;
    await this.#request({ step: "leave", address: "", generation: 0 });
  }

  /** The way to another worker, which the roster knows in this incarnation. */
  channel({ node, incarnation }: Member): Channel {
    const address = this.#membership.entry(node)?.address ?? "";
    if (!this.#isDialed(node)) return this.#peer.expect(node, incarnation);
    return this.#peer.channel(node) ?? this.#peer.dial(node, address, incarnation);
  }

  /** The node is closed: what goes on among the workers ends. */
  close(): void {
    this.#user?.ended(new WeighbridgeError("CLOSED", "this node was closed"));
  }

  /** Tells the scheduler where this worker listens for the others, and waits for the generation that it is in then. */
  async #request(request: GatherRequest): Promise<GatherReply> {
    if (request.step !== "look") this.#membership.address = request.address;
    const reply = await this.#membership.callScheduler(GATHER, request);
    this.#membership.adopt(reply.roster);
    return reply;
  }

  async #listen(): Promise<Address> {
    const { listenAddress, advertise } = this.#options;
    if (listenAddress === "") {
      const message = "workers are not joined with each other over ps-lite's protocol (--van zmq or p3)";
      throw unsupported(`${message}: to reduce among workers, start all nodes with --van weighbridge`);
    }
    this.#membership.checkDialer = ({ node }) => this.#checkDialer(node);
    const bound = await this.#peer.listen(listenAddress);
    this.#isActive = true;
    this.#follow(this.#membership.roster);
    return advertise(bound);
  }

  /** WorkerMesh.W1 */
  #isDialed(node: number): boolean {
    return node < this.#peer.id;
  }

  /** WorkerMesh.W1 */
  #checkDialer(node: number): void {
    if (roleOf(node) === "worker") return;
    throw badRequest(`${nameOf(node)} does not dial ${nameOf(this.#peer.id)}: only workers do`);
  }

  #follow(roster: RosterView): void {
    if (!this.#isActive) return;
    for (const entry of roster.nodes) if (entry.role === "worker" && entry.node !== this.#peer.id) this.#followWorker(entry);
    this.#user?.follow(roster);
  }

  #followWorker({ node, state, address, incarnation }: RosterEntry): void {
    const channel = this.#peer.channel(node);
    const isReachable = state === "alive" && address !== "" && this.#isDialed(node);
    if (isReachable) {
      this.#peer.dial(node, address, incarnation);
    } else if (channel !== undefined && (state === "left" || channel.incarnation < incarnation)) {
      this.#peer.drop(channel, goneError(node, state === "left" ? "has left" : "was restarted")); // WorkerMesh.W2
    }
  }
}

function goneError(node: number, what: string): WeighbridgeError {
  return new WeighbridgeError("NODE_DEAD", `${nameOf(node)} ${what}`, { retryable: true });
}

// peer — a node's end of all its conversations: listens, dials and redials, shakes hands, and keeps one channel per other node.
// It knows links and channels; who is who and alive is the membership's and the scheduler's business.
//
// Invariants:
//   P1. At most one link per channel is in use: a newer one from the same node takes over, the old one is destroyed.
//   P2. An older life of a node never takes over from a newer one (FENCED).
//   P3. A dialed channel is redialed until it ends or gets another address.
//   P4. Who dials us gets no channel of a node that we dial (but see P7), nor one that `events.greeting` refuses: what a stranger can make us keep is bounded.
//   P7. Two nodes of one role have one connection, whichever dialed. When both do at once, that of the lower id wins: the other gives up its own.
//   P6. A dialer that has a number names its job, and shows the token that its node registered with where the roster tells it: knowing a number is not
//       enough to break another's link, reset its conversation or speak for it.
//   P5. At most NOBODIES_MAX links are open that have no node behind them.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { FrameContract, JsonContract } from "../contracts/contract.ts";
import type { Address, Link, LinkReader, Listener, Transport } from "../transport/transport.ts";
import { FrameHeader } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { type Hello, type MemberKind, READS_RUNS } from "../wire/hello.ts";
import { jobConflict, jobNameOf } from "../wire/job-id.ts";
import { FIRST_SERVER_ID, nameOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { Call } from "./call.ts";
import { Channel, type ChannelHost, type FunctionHandler } from "./channel.ts";
import { CHANNEL_LIMITS, type ChannelLimits } from "./channel-limits.ts";
import { Complaints } from "./complaints.ts";
import { Connection, type ConnectionHost, type ReadBuffers } from "./connection.ts";
import { type FaultOptions, Faults } from "./faults.ts";
import { PagePool } from "./frame-batch.ts";
import { FunctionHost, ServedCall } from "./function-host.ts";
import type { Gateway, GatewayHost, PeerConnection } from "./gateway.ts";
import { PeerMetrics } from "./metrics.ts";
import { PlainMemory } from "./plain-memory.ts";
import type { ServedFunction } from "./served-function.ts";

export type PeerOptions = {
  readonly transport: Transport;
  /** Set where the nodes speak another protocol than ours: they are reached through it, and not over the transport. */
  readonly gateway?: Gateway | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly readBuffers: ReadBuffers;
  readonly limits?: Partial<ChannelLimits>;
  readonly faults?: FaultOptions | undefined;
  readonly resendTimeoutMs?: number;
  readonly helloTimeoutMs?: number;
  readonly redialDelayMs?: number;
  readonly connectDeadlineMs?: number;
  /** Whether nodes without an id may talk to this one: they may register with the scheduler, and ask it for its status. */
  readonly acceptsAnonymous?: boolean;
  /** What this node is, before it has a number that says so. Defaults to "tool". */
  readonly kind?: MemberKind | undefined;
  /** Of the package, for messages. */
  readonly packageVersion?: string | undefined;
};

/** What a node wants to hear of its channels. */
export type PeerEvents = {
  /** The link of this channel is gone; it may come back. */
  linkDown?(channel: Channel): void;
  linkUp?(channel: Channel): void;
  /** The other node has a new life; `again` are the calls that may be asked again, in order. */
  restarted?(channel: Channel, again: readonly Call[]): void;
  /** The other node refuses to talk to us, for good. */
  refused?(channel: Channel, error: WeighbridgeError): void;
  /** A try to reach the other node failed; the next one comes soon. */
  unreachable?(channel: Channel, error: Error): void;
  /**
   * A node dialed us and says who it is: number 0 from one that has none. Throws to refuse it. `token` is undefined for a gateway's nodes, which
   * have none.
   */
  greeting?(hello: AcceptedNode): void;
};

/** What a node that dialed us says of itself. */
export type AcceptedNode = Pick<Hello, "job" | "node" | "incarnation"> & Partial<Hello>;

type Dial = { readonly channel: Channel; address: Address; attempt: number; connecting: boolean };

const REDIAL_DELAY_MAX_MS = 1000;
/** More than nodes register at the same moment. */
const NOBODIES_MAX = 1024;

export class Peer implements ChannelHost, ConnectionHost, GatewayHost {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: PeerMetrics = new PeerMetrics();
  readonly complaints: Complaints;
  readonly pages: PagePool = new PagePool();
  readonly stamps: { last: number } = { last: 0 };
  /** By the numbers in frames; `serve` and `serveFrames` add to it. */
  readonly handlers: (FunctionHandler | undefined)[] = [];
  /** Of each channel; who shares them among more nodes sets others. */
  limits: ChannelLimits;
  readonly resendTimeoutMs: number;
  readonly helloTimeoutMs: number;
  readonly readBuffers: ReadBuffers;
  readonly packageVersion: string;
  /** Who we are, once the scheduler has said. */
  id = 0;
  incarnation = 0;
  job = "";
  /** What we registered with: it shows others that a hello of ours is ours. */
  token = "";
  events: PeerEvents = {};
  readonly #transport: Transport;
  readonly #gateway: Gateway | undefined;
  readonly #faults: FaultOptions | undefined;
  readonly #redialDelayMs: number;
  readonly #connectDeadlineMs: number;
  readonly #acceptsAnonymous: boolean;
  readonly #kind: MemberKind;
  readonly #functions: FunctionHost<Channel>;
  readonly #channels = new Map<number, Channel>();
  readonly #connections = new Set<PeerConnection>();
  readonly #dials = new Map<Channel, Dial>();
  readonly #dialing = new Map<PeerConnection, Dial>();
  /** Channels of the gateway's nodes. */
  readonly #adopted = new WeakSet<Channel>();
  readonly #listeners: Listener[] = [];
  #anonymousCount = 0;
  #isLeaving = false;
  #closed = false;

  constructor(options: PeerOptions) {
    this.clock = options.clock;
    this.log = options.log;
    this.complaints = new Complaints(options.log, options.clock);
    this.readBuffers = options.readBuffers;
    this.limits = { ...CHANNEL_LIMITS, ...options.limits };
    this.resendTimeoutMs = options.resendTimeoutMs ?? 0;
    this.helloTimeoutMs = options.helloTimeoutMs ?? 5000;
    this.packageVersion = options.packageVersion ?? "";
    this.#transport = options.transport;
    this.#gateway = options.gateway;
    this.#faults = options.faults;
    this.#redialDelayMs = options.redialDelayMs ?? 20;
    this.#connectDeadlineMs = options.connectDeadlineMs ?? 5000;
    this.#acceptsAnonymous = options.acceptsAnonymous ?? false;
    this.#kind = options.kind ?? "tool";
    this.#functions = new FunctionHost({
      clock: options.clock,
      memory: new PlainMemory(),
      contextOf: (channel) => channel,
    });
    if (this.resendTimeoutMs > 0) this.#watchOverdue();
    this.#gateway?.attach(this);
  }

  /** Everybody is saying goodbye: links that break now are nobody's worry. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  set isLeaving(isLeaving: boolean) {
    this.#isLeaving = isLeaving;
    if (isLeaving) this.#gateway?.leaving();
  }

  /** What to do about a scheduler that is gone, where starting it again would not help. */
  get schedulerLoss(): string | undefined {
    return this.#gateway?.schedulerLoss;
  }

  /** Why the node behind this channel cannot join: it speaks our own protocol, and the cluster another one. */
  joinRefusal(channel: Channel): string | undefined {
    return this.#adopted.has(channel) ? undefined : this.#gateway?.joinRefusal;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Serves a function. Throws BAD_ARGUMENT when it is served already. */
  serve(fn: ServedFunction<Channel>): void {
    this.#functions.add(fn);
    if (this.handlers[fn.id] !== this.#functions) this.serveFrames(fn, this.#functions);
  }

  /** Frames of this function's number go to a handler of the caller's own: they have a layout of their own, or that handler is a host. */
  serveFrames({ id }: Pick<FrameContract, "id">, handler: FunctionHandler): void {
    assert(this.handlers[id] === undefined, `function ${id} is served twice`);
    this.handlers[id] = handler;
  }

  /** Functions that are named in their frames go to a host of the caller's own. */
  hostFunctions(host: FunctionHandler): void {
    this.serveFrames({ id: FunctionId.FUNCTION }, host);
  }

  channel(id: number): Channel | undefined {
    return this.#channels.get(id);
  }

  *channels(): Iterable<Channel> {
    yield* this.#channels.values();
  }

  /** Where this channel's node is dialed; undefined for one that dials us. */
  addressOf(channel: Channel): Address | undefined {
    return this.#dials.get(channel)?.address;
  }

  async listen(address: Address): Promise<Address> {
    const listening = this.#gateway?.listen(address) ?? this.#transport.listen(address, (link) => this.acceptLink(link));
    const listener = await listening;
    this.#listeners.push(listener);
    return listener.address;
  }

  /** A channel to a node at this address. A channel that was known under another address or life moves there. */
  dial(id: number, address: Address, incarnation: number): Channel {
    let channel = this.#channels.get(id);
    if (channel !== undefined && channel.incarnation < incarnation && !this.#dials.has(channel))
      this.drop(channel, restartedError(channel));
    if (channel === undefined || channel.ended !== undefined) channel = this.#newChannel(id, incarnation);
    else if (channel.link !== undefined && !this.#dials.has(channel)) return channel; // P7
    if (!this.#dials.has(channel)) this.#dials.set(channel, { channel, address, attempt: 0, connecting: false });
    const dial = this.#dials.get(channel);
    assert(dial !== undefined, "it was made above");
    if (channel.incarnation < incarnation && channel.incarnation !== 0) {
      this.#replaceLink(channel); // answers of the old life may be under way on it, with numbers that are given again now
      this.#renew(channel, incarnation);
    }
    channel.incarnation = Math.max(channel.incarnation, incarnation);
    if (dial.address !== address) {
      dial.address = address;
      channel.link?.destroy();
    }
    this.#connect(dial);
    return channel;
  }

  /** A channel to a node that will dial us. */
  expect(id: number, incarnation: number): Channel {
    return this.#channels.get(id) ?? this.#newChannel(id, incarnation);
  }

  /** Gives a channel that had no id (or keeps) its id and life; another channel of that id ends. */
  identify(channel: Channel, id: number, incarnation: number): void {
    const old = this.#channels.get(id);
    if (old !== undefined && old !== channel) {
      old.end(new WeighbridgeError("FENCED", `${nameOf(id)} was replaced by a newer one`));
    }
    this.#channels.delete(channel.id);
    channel.id = id;
    channel.incarnation = incarnation;
    this.#channels.set(id, channel);
  }

  /** Ends the channel for good: open calls fail with `error`. */
  drop(channel: Channel, error: WeighbridgeError): void {
    if (this.#channels.get(channel.id) === channel) this.#channels.delete(channel.id);
    this.#dials.delete(channel);
    channel.end(error);
  }

  /** Closes every link after what was written left; open calls fail with CLOSED. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const error = new WeighbridgeError("CLOSED", "this node was closed");
    for (const channel of [...this.#channels.values()]) this.drop(channel, error);
    for (const connection of [...this.#connections]) connection.link.close();
    await Promise.all(this.#listeners.map((listener) => listener.close()));
  }

  // ConnectionHost

  greeted(connection: Connection, hello: Hello): { channel: Channel; reply: Hello | undefined } {
    checkJob(this.job, hello);
    const dial = this.#dialing.get(connection);
    if (dial === undefined) {
      const channel = this.#acceptHello(hello);
      return { channel, reply: this.#hello(channel) };
    }
    return { channel: this.#reached(dial, hello), reply: undefined };
  }

  refused(connection: Connection, error: WeighbridgeError): void {
    const dial = this.#dialing.get(connection);
    if (dial === undefined || error.retryable) return;
    const { channel } = dial;
    this.drop(channel, error);
    this.events.refused?.(channel, error);
  }

  ended(connection: PeerConnection, cause: Error | undefined): void {
    this.#connections.delete(connection);
    const { channel } = connection;
    if (cause !== undefined && !this.#closed) {
      const fields = { remote: connection.link.remote, node: channel?.name, reason: cause.message };
      const isExpected = this.isLeaving || channel?.isLeaving === true || (cause instanceof WeighbridgeError && cause.retryable); // the next try comes soon
      this.complaints.tell(isExpected ? "debug" : "warn", "link broken", fields);
    }
    const dial = this.#dialing.get(connection);
    this.#dialing.delete(connection);
    if (dial !== undefined) {
      dial.connecting = false;
      if (channel === undefined && cause !== undefined) this.events.unreachable?.(dial.channel, cause);
      this.#redial(dial);
    }
    if (channel === undefined) return;
    if (channel.id < 0) this.drop(channel, new WeighbridgeError("CLOSED", "the peer went away before it was registered"));
    if (channel.link === undefined) this.events.linkDown?.(channel);
  }

  // GatewayHost

  acceptLink(link: Link): LinkReader {
    this.#checkNobodies(link);
    return this.#open(link).reader;
  }

  adopt(connection: PeerConnection, node: number, incarnation: number): Channel {
    const dial = this.#dialing.get(connection);
    this.#dialing.delete(connection); // it is over if the node is refused
    const channel = dial === undefined ? this.#acceptNode({ job: "", node, incarnation }) : this.#reached(dial, { node, incarnation });
    if (dial !== undefined) this.#dialing.set(connection, dial);
    this.metrics.linksOpened++;
    this.#connections.add(connection);
    this.#adopted.add(channel);
    return channel;
  }

  async serveControl<Q, R>(channel: Channel, fn: JsonContract<Q, R>, request: Q): Promise<R> {
    const served = this.#functions.find(fn);
    if (served === undefined) throw new WeighbridgeError("UNKNOWN_FUNCTION", `this node does not serve ${fn.name}`);
    const { body } = await served.handle(channel, { body: request }, new ServedCall(new FrameHeader()));
    return body as R; // by the same contract
  }

  /** The node that we dialed says who it is; a gateway's node cannot say which request it expects. */
  #reached(dial: Dial, hello: Pick<Hello, "node" | "incarnation"> & Partial<Hello>): Channel {
    const { channel } = dial;
    if (this.#isDropped(dial)) throw dialsItself(channel.id, this.id); // P7
    if (hello.node !== channel.id) {
      throw new WeighbridgeError("NO_ROUTE", `${dial.address} was expected to be ${channel.name} but is ${nameOf(hello.node)}`, {
        retryable: true,
      });
    }
    if (hello.incarnation < channel.incarnation) {
      throw new WeighbridgeError("NO_ROUTE", `${dial.address} still is an older life of ${channel.name}`, { retryable: true });
    }
    if (channel.link !== undefined) this.#replaceLink(channel);
    const isRestarted = channel.incarnation !== 0 && hello.incarnation !== channel.incarnation;
    if (isRestarted || (hello.expects !== undefined && !channel.canResumeAt(hello.expects))) this.#renew(channel, hello.incarnation);
    else channel.resume(hello.expects);
    channel.incarnation = hello.incarnation;
    dial.attempt = 0;
    this.#announceUp(channel);
    return channel;
  }

  /** P5 */
  #checkNobodies({ remote }: Link): void {
    if (this.#connections.size < NOBODIES_MAX) return;
    let count = 0;
    for (const { channel } of this.#connections) if (channel === undefined || channel.id < 0) count++;
    if (count < NOBODIES_MAX) return;
    this.metrics.linksRefused++;
    this.complaints.tell("warn", "link refused", { remote, reason: `${count} links are open already that no node stands behind` });
    throw new WeighbridgeError("QUEUE_FULL", `${count} links without a node are open already`, { retryable: true });
  }

  #open(link: Link): Connection {
    this.metrics.linksOpened++;
    const connection = new Connection(this, link);
    this.#connections.add(connection);
    return connection;
  }

  #newChannel(id: number, incarnation: number): Channel {
    const dropped = (): number => this.metrics.framesDropped++;
    const faults = this.#faults === undefined ? undefined : new Faults(this.#faults, this.clock, id * 31 + this.id, dropped);
    const channel = new Channel(this, id, incarnation, faults);
    this.#channels.set(id, channel);
    return channel;
  }

  #hello(channel: Channel): Hello {
    const { job, id: node, incarnation, packageVersion } = this;
    const kind = node === 0 ? this.#kind : roleOf(node);
    const version = packageVersion === "" ? {} : { packageVersion };
    return { job, kind, node, incarnation, expects: channel.expects, ...version, capabilities: [READS_RUNS] };
  }

  /** What only the node we dial may know: whoever dials us and is refused must not learn our token. */
  #dialerHello(channel: Channel): Hello {
    const token = this.id === 0 || this.token === "" ? {} : { token: this.token };
    return { ...this.#hello(channel), ...token, ...(channel.incarnation === 0 ? {} : { knows: channel.incarnation }) };
  }

  /** The channel for whoever dialed us in our own protocol. A node with a number names its job (P6). */
  #acceptHello(hello: Hello): Channel {
    const isKind = hello.node === 0 ? hello.kind !== "scheduler" : hello.kind === roleOf(hello.node);
    if (!isKind) throw new WeighbridgeError("BAD_REQUEST", `node ${hello.node} says that it is a ${hello.kind}, which it cannot be`);
    if (hello.node !== 0 && hello.job === "")
      throw new WeighbridgeError(
        "BAD_REQUEST",
        `${nameOf(hello.node)} does not say which job it belongs to; a node that has a place knows it`,
      );
    return this.#acceptNode(hello.node === 0 ? hello : { ...hello, token: hello.token ?? "" });
  }

  /** The channel for a node that dialed us; a gateway's node has no token, and says no more than who it is. */
  #acceptNode(hello: AcceptedNode): Channel {
    if (hello.node === 0) {
      if (!this.#acceptsAnonymous) throw new WeighbridgeError("BAD_REQUEST", "only the scheduler talks to nodes without an id");
      this.events.greeting?.(hello);
      return this.#newChannel(-++this.#anonymousCount, 0);
    }
    const known = this.#channels.get(hello.node);
    const isDialed = known !== undefined && this.#dials.has(known);
    if (hello.node < FIRST_SERVER_ID || hello.node === this.id || (isDialed && roleOf(hello.node) !== roleOf(this.id))) {
      const name = hello.node === SCHEDULER_ID ? "the scheduler" : `node ${hello.node}`;
      throw new WeighbridgeError("BAD_REQUEST", `there is no node ${hello.node} that dials this one: ${name} does not`); // P4
    }
    this.events.greeting?.(hello);
    if (isDialed && hello.node > this.id) throw dialsItself(this.id, hello.node); // P7
    if (isDialed) this.#dials.delete(known); // P7
    if (known === undefined || known.ended !== undefined) {
      const channel = this.#newChannel(hello.node, hello.incarnation);
      this.#announceUp(channel);
      return channel;
    }
    if (hello.incarnation < known.incarnation) {
      throw new WeighbridgeError(
        "FENCED",
        `${known.name} was replaced by a newer one (life ${known.incarnation}, this is ${hello.incarnation})`,
      ); // P2
    }
    this.#replaceLink(known);
    if (hello.incarnation > known.incarnation) {
      // A channel of its own, so that answers that are still due to the old life cannot be taken for answers to the new one.
      this.drop(known, restartedError(known));
      return this.#acceptNode(hello);
    }
    if (hello.expects !== undefined && !known.canResumeAt(hello.expects)) return this.#acceptAnew(known);
    known.resume(hello.expects);
    this.#announceUp(known);
    return known;
  }

  /** A node of the same life has forgotten the conversation. Its channel is replaced: answers that are due to the old one must not go to the new one. */
  #acceptAnew(known: Channel): Channel {
    const again = known.renew(known.incarnation, restartedError(known));
    this.drop(known, restartedError(known));
    const channel = this.#newChannel(known.id, known.incarnation);
    this.#askAgain(channel, again);
    this.#announceUp(channel);
    return channel;
  }

  /** P1 */
  #replaceLink(channel: Channel): void {
    const { link } = channel;
    if (link === undefined) return;
    channel.detach(link);
    link.destroy();
  }

  #renew(channel: Channel, incarnation: number): void {
    this.#askAgain(channel, channel.renew(incarnation, restartedError(channel)));
  }

  #askAgain(channel: Channel, again: readonly Call[]): void {
    if (this.events.restarted !== undefined) this.events.restarted(channel, again);
    else for (const call of again) channel.send(call);
  }

  #announceUp(channel: Channel): void {
    this.clock.soon(() => this.events.linkUp?.(channel));
  }

  #connect(dial: Dial): void {
    if (dial.connecting || dial.channel.link !== undefined || this.#isDropped(dial)) return;
    dial.connecting = true;
    const open = (link: Link): LinkReader => {
      const connection = this.#open(link);
      this.#dialing.set(connection, dial);
      connection.sendHello(this.#dialerHello(dial.channel));
      return connection.reader;
    };
    const connecting =
      this.#gateway?.connect(dial.address, (connection) => this.#dialing.set(connection, dial)) ??
      this.#transport.connect(dial.address, open, { deadlineMs: this.#connectDeadlineMs });
    connecting.catch((error: Error) => {
      dial.connecting = false;
      if (this.#isDropped(dial)) return;
      this.events.unreachable?.(dial.channel, error);
      this.#redial(dial);
    });
  }

  #redial(dial: Dial): void {
    if (this.#isDropped(dial)) return;
    const delayMs = Math.min(REDIAL_DELAY_MAX_MS, this.#redialDelayMs * 2 ** Math.min(dial.attempt++, 10));
    this.clock.after(delayMs, () => this.#connect(dial)); // P3
  }

  #isDropped(dial: Dial): boolean {
    return this.#closed || this.#dials.get(dial.channel) !== dial;
  }

  #watchOverdue(): void {
    this.clock.after(this.resendTimeoutMs / 2, () => {
      if (this.#closed) return;
      const nowMs = this.clock.nowMs();
      for (const channel of this.#channels.values()) channel.resendOverdue(nowMs);
      this.#watchOverdue();
    });
  }
}

/** Of two links the other one counts; its dialer tries again, and finds that it has been reached meanwhile. */
function dialsItself(dialer: number, dialed: number): WeighbridgeError {
  return new WeighbridgeError("NO_ROUTE", `${nameOf(dialer)} dials ${nameOf(dialed)} itself`, { retryable: true });
}

function restartedError({ name }: Channel): WeighbridgeError {
  const message = `${name} was restarted; whether what it had not answered was applied is lost with it`;
  return new WeighbridgeError("NODE_DEAD", message, { retryable: true });
}

/** Nodes of two jobs do not talk, nor do those of two runs of one. Throws WRONG_JOB, and FENCED. */
function checkJob(own: string, { job, kind, node }: Hello): void {
  const conflict = jobConflict(own, job);
  if (conflict === undefined) return;
  const [theirs, ours] = [jobNameOf(job), jobNameOf(own)];
  if (conflict === "name") {
    const fix =
      "give each job a scheduler of its own, and its nodes the right address (--scheduler-host, --scheduler-port) or name (--job)";
    const message = `a ${kind} of job "${theirs}" has come to a node of job "${ours}"; ${fix}`;
    throw new WeighbridgeError("WRONG_JOB", message, { retryable: node !== 0 }); // who has a place goes on, and waits for the right scheduler
  }
  throw new WeighbridgeError(
    "FENCED",
    `job ${job} is not job ${own}: a node of an earlier run of "${ours}" dialed this one, or this address was reused`,
  );
}

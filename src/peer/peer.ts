// peer — a node's end of all its conversations: listens, dials (dialer.ts), shakes hands, keeps one channel per node.
// It knows links and channels; membership and scheduler know who is who, and who is alive.
//
// Invariants (see also Dialer.P3):
//   Peer.P1. At most one link per channel is in use: a newer one from the same node takes over, the old one is
//       destroyed.
//   Peer.P2. An older incarnation of a node never takes over from a newer one (FENCED).
//   Peer.P4. A dialer gets no channel of a node that we dial (but see Peer.P7), nor one that `events.hello` refuses.
//   Peer.P5. At most NOBODIES_MAX links are open that have no node behind them.
//   Peer.P6. A dialer that has a number names its job and shows the token that its node registered with, if the roster
//       has it: knowing a number is not enough to break another's link, reset its conversation or speak for it.
//   Peer.P7. Two nodes of one role have one connection, whichever dialed. If both dial at once, the lower id's wins.
//   Peer.P8. A pulse shows what its node would show (Peer.P6), and gets a channel without a number: the node's own link
//       and conversation stay as they are.
//   Peer.P9. A node without a number begins each link with a new conversation: the scheduler cannot know it again, and
//       has numbered nothing yet on the channel that it opens for that link.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { FrameContract, JsonContract } from "../contracts/contract.ts";
import type { Address, Link, LinkReader, Listener, Transport } from "../transport/transport.ts";
import { FrameHeader } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { type Hello, type MemberKind, READS_RUNS } from "../wire/hello.ts";
import { FIRST_SERVER_ID, nameOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { Call } from "./call.ts";
import { Channel, type FunctionHandler } from "./channel.ts";
import { CHANNEL_LIMITS, type ChannelHost, type ChannelLimits, PeerMetrics } from "./channel-host.ts";
import { Connection, type ConnectionHost, type ReadBuffers } from "./connection.ts";
import { type Dial, Dialer } from "./dialer.ts";
import { type FaultOptions, Faults } from "./faults.ts";
import { PagePool } from "./frame-batch.ts";
import { FunctionHost, ServedCall } from "./function-host.ts";
import type { Gateway, GatewayHost, PeerConnection } from "./gateway.ts";
import { checkDialer, checkJob, dialsItself, replacedError, restartedError, unlinkedError } from "./hello-rules.ts";
import { PeerLog } from "./peer-log.ts";
import type { AcceptedNode, DialOptions, PeerEvents, PeerOptions } from "./peer-options.ts";
import { PlainMemory } from "./request-assembly.ts";
import type { ServedFunction } from "./served-function.ts";

/** More than nodes register at the same moment. */
const NOBODIES_MAX = 1024;

export class Peer implements ChannelHost, ConnectionHost, GatewayHost {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: PeerMetrics = new PeerMetrics();
  readonly peerLog: PeerLog;
  readonly pages: PagePool = new PagePool();
  readonly stamps: { last: number } = { last: 0 };
  /** By the numbers in frames; `serve` and `serveFrames` add to it. */
  readonly handlers: (FunctionHandler | undefined)[] = [];
  /** Of each channel; a node that shares them among more nodes sets others. */
  limits: ChannelLimits;
  readonly resendTimeoutMs: number;
  readonly helloTimeoutMs = 5000;
  readonly readBuffers: ReadBuffers;
  readonly packageVersion: string;
  /** Our identity, once the scheduler has assigned it. */
  id = 0;
  incarnation = 0;
  job = "";
  /** The token that we registered with: it proves that a hello is ours. */
  token = "";
  events: PeerEvents = {};
  /** As ChannelHost's; a replicated server sets it. */
  outputOf: ChannelHost["outputOf"];
  /**
   * Whether what this node writes to that one is held back for long: it is silent itself. A replicated server sets it.
   */
  isMuteTo: (node: number) => boolean = () => false;
  readonly #transport: Transport;
  readonly #gateway: Gateway | undefined;
  readonly #faults: FaultOptions | undefined;
  readonly #connectDeadlineMs: number;
  readonly #acceptsAnonymous: boolean;
  readonly #kind: MemberKind;
  readonly #functions: FunctionHost<Channel>;
  readonly #channels = new Map<number, Channel>();
  readonly #connections = new Set<PeerConnection>();
  readonly #dialer: Dialer;
  /** Channels of the gateway's nodes. */
  readonly #adopted = new WeakSet<Channel>();
  readonly #listeners: Listener[] = [];
  #anonymousCount = 0;
  #isLeaving = false;
  #closed = false;

  constructor(options: PeerOptions) {
    this.clock = options.clock;
    this.log = options.log;
    this.peerLog = new PeerLog(options.log, options.clock);
    this.readBuffers = options.readBuffers;
    this.limits = { ...CHANNEL_LIMITS, ...options.limits };
    this.resendTimeoutMs = options.resendTimeoutMs ?? 0;
    this.packageVersion = options.packageVersion ?? "";
    this.#transport = options.transport;
    this.#gateway = options.gateway;
    this.#faults = options.faults;
    this.#connectDeadlineMs = options.connectDeadlineMs ?? 5000;
    this.#acceptsAnonymous = options.acceptsAnonymous ?? false;
    this.#kind = options.kind ?? "tool";
    this.#functions = new FunctionHost({
      clock: options.clock,
      memory: new PlainMemory(),
      contextOf: (channel) => channel,
    });
    this.#dialer = new Dialer({
      clock: options.clock,
      connect: (dial, opened) => this.#connect(dial, opened),
      unreachable: (channel, error) => this.events.unreachable?.(channel, error),
    });
    if (this.resendTimeoutMs > 0) this.#watchOverdue();
    this.#gateway?.attach(this);
  }

  /** The job is ending: links that break now are expected. */
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

  /** Stops serving a function of `serve`. */
  stopServing(fn: ServedFunction<Channel>): void {
    this.#functions.remove(fn);
  }

  /** Frames with this function's number go to this handler: they have their own layout, or it is a host. */
  serveFrames({ id }: Pick<FrameContract, "id">, handler: FunctionHandler): void {
    assert(this.handlers[id] === undefined, `function ${id} is served twice`);
    this.handlers[id] = handler;
  }

  /** Stops serving frames of this function's number. */
  stopFrames({ id }: Pick<FrameContract, "id">): void {
    this.handlers[id] = undefined;
  }

  /** Functions that are named in their frames go to a host of the caller's own. */
  hostFunctions(host: FunctionHandler): void {
    this.serveFrames({ id: FunctionId.FUNCTION }, host);
  }

  /** They go to this peer's host, also while `serve` has added none. */
  hostOwnFunctions(): void {
    this.hostFunctions(this.#functions);
  }

  channel(id: number): Channel | undefined {
    return this.#channels.get(id);
  }

  *channels(): Iterable<Channel> {
    yield* this.#channels.values();
  }

  /** The nodes whose links share memory with this one's; undefined: none does. */
  sharing(): readonly number[] | undefined {
    const nodes = [...this.#channels.values()].filter(({ link }) => link?.upgrade?.isShared === true).map(({ id }) => id);
    return nodes.length === 0 ? undefined : nodes;
  }

  /** Where this channel's node is dialed; undefined for one that dials us. */
  addressOf(channel: Channel): Address | undefined {
    return this.#dialer.addressOf(channel);
  }

  async listen(address: Address): Promise<Address> {
    const listening = this.#gateway?.listen(address) ?? this.#transport.listen(address, (link) => this.acceptLink(link));
    const listener = await listening;
    this.#listeners.push(listener);
    return listener.address;
  }

  /**
   * A channel to a node at this address, or at one of `others`. A channel that was known under another address or
   * incarnation moves there. `continues`: the state of the node's incarnations from this one on goes on in
   * `incarnation` (Channel.N7). `returns`: a later incarnation may go on with that state, and the next `dial` says so.
   */
  dial(id: number, address: Address, incarnation: number, options: DialOptions = {}): Channel {
    const { others = [], continues = incarnation, returns = false } = options;
    let channel = this.#channels.get(id);
    if (channel !== undefined && channel.incarnation < incarnation && !this.#dialer.has(channel))
      this.drop(channel, restartedError(channel));
    if (channel === undefined || channel.ended !== undefined) channel = this.#newChannel(id, incarnation);
    else if (channel.link !== undefined && !this.#dialer.has(channel)) return channel; // Peer.P7
    if (channel.incarnation < incarnation && channel.incarnation !== 0) {
      if (channel.incarnation >= continues) channel.continueWith(incarnation);
      else this.#renew(channel, incarnation);
    }
    if (channel.incarnation === 0) channel.since = incarnation;
    channel.incarnation = Math.max(channel.incarnation, incarnation);
    channel.returns = returns;
    this.#dialer.dial(channel, address, others);
    return channel;
  }

  /** A channel to a node that will dial us. */
  expect(id: number, incarnation: number): Channel {
    return this.#channels.get(id) ?? this.#newChannel(id, incarnation);
  }

  /** Gives a channel that had no id (or keeps) its id and incarnation; another channel of that id ends. */
  identify(channel: Channel, id: number, incarnation: number): void {
    const old = this.#channels.get(id);
    if (old !== undefined && old !== channel) {
      old.end(new WeighbridgeError("FENCED", `${nameOf(id)} was replaced by a newer one`));
    }
    this.#channels.delete(channel.id);
    channel.id = id;
    channel.incarnation = incarnation;
    channel.since = incarnation;
    this.#channels.set(id, channel);
  }

  /** Ends the channel for good: open calls fail with `error`. */
  drop(channel: Channel, error: WeighbridgeError): void {
    if (this.#channels.get(channel.id) === channel) this.#channels.delete(channel.id);
    this.#dialer.drop(channel);
    channel.end(error);
  }

  /** Closes every link after what was written left; open calls fail with CLOSED. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const error = new WeighbridgeError("CLOSED", "this node was closed");
    for (const channel of [...this.#channels.values()]) this.drop(channel, error);
    this.#dialer.close();
    for (const connection of [...this.#connections]) connection.link.close();
    await Promise.all(this.#listeners.map((listener) => listener.close()));
  }

  // ConnectionHost

  helloCame(connection: Connection, hello: Hello): { channel: Channel; reply: Hello | undefined } {
    checkJob(this.job, hello);
    const dial = this.#dialer.dialOf(connection);
    if (dial === undefined) {
      const channel = this.#acceptHello(hello);
      return { channel, reply: this.#hello(channel) };
    }
    return { channel: this.#reached(dial, hello), reply: undefined };
  }

  refused(connection: Connection, error: WeighbridgeError): void {
    const dial = this.#dialer.dialOf(connection);
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
      const isOwnFault = this.isLeaving || (channel !== undefined && this.isMuteTo(channel.id));
      const isExpected = isOwnFault || channel?.isLeaving === true || (cause instanceof WeighbridgeError && cause.retryable);
      this.peerLog.log(isExpected ? "debug" : "warn", "link broken", fields);
    }
    this.#dialer.ended(connection, cause);
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
    const channel = this.#dialer.adopt(connection, (dial) =>
      dial === undefined ? this.#acceptNode({ job: "", node, incarnation }) : this.#reached(dial, { node, incarnation }),
    );
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

  /** The node that we dialed has sent its hello; a gateway's node cannot say which request it expects. */
  #reached(dial: Dial, hello: Pick<Hello, "node" | "incarnation"> & Partial<Hello>): Channel {
    const { channel } = dial;
    if (this.#dialer.isDropped(dial)) throw dialsItself(channel.id, this.id); // Peer.P7
    if (hello.node !== channel.id) {
      throw new WeighbridgeError("NO_ROUTE", `${dial.address} was expected to be ${channel.name} but is ${nameOf(hello.node)}`, {
        retryable: true,
      });
    }
    const isOlder = hello.incarnation < channel.incarnation;
    if (isOlder || (channel.returns && hello.incarnation > channel.incarnation)) {
      const message = `${dial.address} ${isOlder ? "still is an older" : "is a later"} incarnation of ${channel.name}`;
      throw new WeighbridgeError("NO_ROUTE", message, { retryable: true });
    }
    channel.cutLink(); // Peer.P1
    const isRestarted = channel.incarnation !== 0 && hello.incarnation !== channel.incarnation;
    const isUnknown = this.id === 0 && hello.expects !== undefined && channel.hasBegun; // Peer.P9
    if (!isRestarted && isUnknown) this.#renew(channel, hello.incarnation, unlinkedError(channel));
    else if (isRestarted || (hello.expects !== undefined && !channel.canResumeAt(hello.expects))) this.#renew(channel, hello.incarnation);
    else channel.resume(hello.expects);
    if (channel.incarnation === 0) channel.since = hello.incarnation;
    channel.incarnation = hello.incarnation;
    dial.attempt = 0;
    this.#reportUp(channel);
    return channel;
  }

  /** Peer.P5 */
  #checkNobodies({ remote }: Link): void {
    if (this.#connections.size < NOBODIES_MAX) return;
    let count = 0;
    for (const { channel } of this.#connections) if (channel === undefined || (channel.id < 0 && channel.pulseOf === undefined)) count++;
    if (count < NOBODIES_MAX) return;
    this.metrics.linksRefused++;
    this.peerLog.log("warn", "link refused", { remote, reason: `${count} links without a node are open already` });
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
    const expects = node === 0 ? 1 : channel.expects; // Peer.P9
    return { job, kind, node, incarnation, expects, ...version, capabilities: [READS_RUNS] };
  }

  /** What only the node we dial may know: a node that dials us and is refused must not learn our token. */
  #dialerHello(channel: Channel): Hello {
    const token = this.id === 0 || this.token === "" ? {} : { token: this.token };
    return { ...this.#hello(channel), ...token, ...(channel.incarnation === 0 ? {} : { knows: channel.incarnation }) };
  }

  /** The channel for a node that dialed us in our own protocol (Peer.P6). */
  #acceptHello(hello: Hello): Channel {
    checkDialer(hello);
    if (hello.kind === "pulse") return this.#acceptPulse({ ...hello, token: hello.token ?? "" });
    return this.#acceptNode(hello.node === 0 ? hello : { ...hello, token: hello.token ?? "" });
  }

  /** Peer.P8 */
  #acceptPulse(hello: Hello): Channel {
    if (!this.#acceptsAnonymous) throw badRequest("only the scheduler takes the pulse of a node");
    this.events.hello?.(hello);
    const channel = this.#newChannel(-++this.#anonymousCount, 0);
    channel.pulseOf = { node: hello.node, incarnation: hello.incarnation };
    return channel;
  }

  /** The channel for a node that dialed us; a gateway's node has no token, only an id and an incarnation. */
  #acceptNode(hello: AcceptedNode): Channel {
    if (hello.node === 0) {
      if (!this.#acceptsAnonymous) throw badRequest("only the scheduler talks to nodes without an id");
      this.events.hello?.(hello);
      return this.#newChannel(-++this.#anonymousCount, 0);
    }
    // the standby that it sends its log to has taken over from it
    if (hello.node === this.id && hello.incarnation < this.incarnation) throw replacedError(this.id, hello.incarnation, this.incarnation);
    const known = this.#channels.get(hello.node);
    const isDialed = known !== undefined && this.#dialer.has(known);
    if (hello.node < FIRST_SERVER_ID || hello.node === this.id || (isDialed && roleOf(hello.node) !== roleOf(this.id))) {
      const name = hello.node === SCHEDULER_ID ? "the scheduler" : `node ${hello.node}`;
      // Peer.P4
      throw badRequest(`there is no node ${hello.node} that dials this one: ${name} does not`);
    }
    this.events.hello?.(hello);
    if (isDialed && hello.node > this.id) throw dialsItself(this.id, hello.node); // Peer.P7
    if (isDialed) this.#dialer.drop(known); // Peer.P7
    if (known === undefined || known.ended !== undefined) {
      const channel = this.#newChannel(hello.node, hello.incarnation);
      this.#reportUp(channel);
      return channel;
    }
    if (hello.incarnation < known.incarnation) {
      throw replacedError(known.id, hello.incarnation, known.incarnation); // Peer.P2
    }
    known.cutLink(); // Peer.P1
    if (hello.incarnation > known.incarnation) {
      // A new channel, so that answers due to the old incarnation cannot be taken for answers to the new one.
      this.drop(known, restartedError(known));
      return this.#acceptNode(hello);
    }
    if (hello.expects !== undefined && !known.canResumeAt(hello.expects)) return this.#acceptAnew(known);
    known.resume(hello.expects);
    this.#reportUp(known);
    return known;
  }

  /** A node of the same incarnation forgot the conversation: a new channel keeps answers to the old one from it. */
  #acceptAnew(known: Channel): Channel {
    const again = known.renew(known.incarnation, restartedError(known));
    this.drop(known, restartedError(known));
    const channel = this.#newChannel(known.id, known.incarnation);
    this.#sendAgain(channel, again);
    this.#reportUp(channel);
    return channel;
  }

  #renew(channel: Channel, incarnation: number, error = restartedError(channel)): void {
    this.#sendAgain(channel, channel.renew(incarnation, error));
  }

  #sendAgain(channel: Channel, again: readonly Call[]): void {
    if (this.events.restarted !== undefined) this.events.restarted(channel, again);
    else for (const call of again) channel.send(call);
  }

  #reportUp(channel: Channel): void {
    this.clock.soon(() => this.events.linkUp?.(channel));
  }

  async #connect(dial: Dial, opened: (connection: PeerConnection) => void): Promise<void> {
    const { address, channel } = dial;
    const open = (link: Link): LinkReader => {
      const connection = this.#open(link);
      opened(connection);
      connection.sendHello(this.#dialerHello(channel));
      return connection.reader;
    };
    if (this.#gateway === undefined) await this.#transport.connect(address, open, { timeoutMs: this.#connectDeadlineMs });
    else await this.#gateway.connect(address, opened);
  }

  #watchOverdue(): void {
    const look = (): void => {
      if (this.#closed) return;
      const nowMs = this.clock.nowMs();
      for (const channel of this.#channels.values()) channel.resendOverdue(nowMs);
      this.#watchOverdue();
    };
    this.clock.after(this.resendTimeoutMs / 2, look, true);
  }
}

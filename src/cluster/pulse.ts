// pulse — shows the scheduler that a process runs while the event loop of its node is busy, and other nodes that the
// process of a busy scheduler runs (docs/decisions/0083). What speaks does not depend on that loop: in Node it is a
// thread (node/pulse.ts). A runtime without one hands none in, and its nodes are judged by their heartbeats alone.
//
//   the loop turns ── it stands still for QUIET_TICKS ticks ──► a link to the scheduler: hello, then a beat each tick
//        ▲                                                          │
//        └──────────── it turns again: the link is closed ◄─────────┘
//
// Invariants:
//   Pulse.E1. A pulse speaks only while the loop is busy. A job whose loops turn has no further link and no further
//       frame.
//   Pulse.E2. Its link shows node, incarnation and token (spec/protocol.md, H16), and replaces no link of the node.
//   Pulse.E3. The time for which a process was stopped is no time for which its loop was busy.
//   Pulse.E4. A final refusal ends it: another process has the node's rank. After any other it rests, and tries again.

import { HEARTBEAT } from "../contracts/control.ts";
import type { Address } from "../transport/transport.ts";
import { FrameHeader, HEADER_BYTES, Kind } from "../wire/frame.ts";
import { type Hello, tokenShape } from "../wire/hello.ts";
import { type Check, count, jsonFrame, list, object } from "../wire/json-body.ts";
import type { HeartbeatRules } from "./heartbeat.ts";

/** For how many ticks a loop stands still before its pulse speaks. */
export const QUIET_TICKS = 2;
/** Ticks in a heartbeat timeout: several beats may be lost before a node counts as silent. */
const TICKS_PER_TIMEOUT = 10;
const TICK_MS_MIN = 10;

/** A node that is spoken for. */
export type Speaker = {
  readonly node: number;
  /** Of its scheduler; the one that was reached last first. */
  readonly addresses: readonly Address[];
  readonly everyMs: number;
  readonly frames: PulseFrames;
};

/** Where a pulse answers for the scheduler of its process. */
export type AnsweringPulse = { readonly address: Address; close(): void };

/** `busy`: the nodes of that process whose loops are busy. */
export type PulseAnswer = { readonly token: string; readonly loopBusyMs: number; readonly busy: readonly number[] };
export const pulseAnswerShape: Check<PulseAnswer> = object({ token: tokenShape, loopBusyMs: count, busy: list(count) });

export interface Pulse {
  /** Speaks for this node from now on. Returns how to end that. */
  speak(speaker: Speaker): () => void;
  /** Answers everybody who connects there. Rejects if it cannot listen. */
  answer(address: Address, options: { readonly token: string; readonly everyMs: number }): Promise<AnsweringPulse>;
  /** Asks a pulse that answers there. Rejects when none answers in time. */
  ask(address: Address, options: { readonly timeoutMs: number }): Promise<PulseAnswer>;
}

const LOOP_TIMEOUT_MS = 30_000;

/** How long the loop of a server may be busy, by default. */
export function loopTimeoutFor(heartbeatTimeoutMs: number): number {
  return Math.max(LOOP_TIMEOUT_MS, 2 * heartbeatTimeoutMs);
}

/** How often a loop shows that it turns, and a pulse that its process runs. */
export function pulseIntervalMs({ heartbeatIntervalMs, heartbeatTimeoutMs }: HeartbeatRules): number {
  return Math.max(TICK_MS_MIN, Math.min(heartbeatIntervalMs, Math.floor(heartbeatTimeoutMs / TICKS_PER_TIMEOUT)));
}

/** What a pulse sends: its hello once, and then this beat again and again, with other numbers (`BEAT`). */
export type PulseFrames = { readonly hello: Uint8Array<ArrayBuffer>; readonly beat: Uint8Array<ArrayBuffer> };

/** Where the numbers of a beat are: those of the request as u32, and the digits of `loopBusyMs`, with spaces behind. */
export const BEAT: { readonly requestAt: number; readonly settledAt: number; readonly digitsAt: number; readonly digitCount: number } = {
  requestAt: 16,
  settledAt: 32,
  digitsAt: HEADER_BYTES + '{"loopBusyMs":'.length,
  digitCount: 15,
};

export function pulseFrames(own: Pick<Hello, "job" | "node" | "incarnation" | "token">): PulseFrames {
  const hello: Hello = { ...own, kind: "pulse", expects: 1 };
  const header = new FrameHeader().reset(Kind.REQUEST, HEARTBEAT.id);
  const beat = jsonFrame(header, { loopBusyMs: 10 ** (BEAT.digitCount - 1) });
  return { hello: jsonFrame(new FrameHeader().reset(Kind.HELLO, 0), hello), beat };
}

/** The header of an answer; its payload's length is that of the text behind it. */
export function pulseAnswerHeader(): Uint8Array<ArrayBuffer> {
  return jsonFrame(new FrameHeader().reset(Kind.REPLY, HEARTBEAT.id), {}).slice(0, HEADER_BYTES);
}

// etcd-client — speaks to the members of an etcd cluster through their JSON gateway, with fetch. No library: six calls
// are all that is needed.
//
// Invariants:
//   EtcdClient.C1. A member that does not answer within CALL_MS, or answers with a failure, makes the next call go to
//       the next member. A call is tried with each of them once.

import { Buffer } from "node:buffer";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { EtcdApi, EtcdChange, EtcdEntry } from "./etcd-api.ts";

/** More than a member needs; less than a scheduler can be without an answer. */
const CALL_MS = 1000;
const PAGE_KEYS = 256;

type Json = Readonly<Record<string, unknown>>;
type WireEntry = { readonly key: string; readonly value?: string; readonly create_revision: string };

export class EtcdClient implements EtcdApi {
  readonly #urls: readonly string[];
  #next = 0;

  /** `urls` as http://host:port. */
  constructor(urls: readonly string[]) {
    this.#urls = urls;
  }

  async grantLease(ttlMs: number): Promise<{ readonly lease: string; readonly ttlMs: number }> {
    const { ID, TTL } = await this.#call("lease/grant", { TTL: Math.ceil(ttlMs / 1000) });
    return { lease: String(ID), ttlMs: Number(TTL) * 1000 };
  }

  async keepAlive(lease: string): Promise<boolean> {
    const { result } = await this.#call("lease/keepalive", { ID: lease });
    return Number((result as Json | undefined)?.TTL ?? 0) > 0;
  }

  async revokeLease(lease: string): Promise<void> {
    await this.#call("lease/revoke", { ID: lease });
  }

  async change({ ifKey, hasCreateRevision, puts = [], removes = [] }: EtcdChange): Promise<boolean> {
    const { succeeded } = await this.#call("kv/txn", {
      compare: [{ key: base64(ifKey), target: "CREATE", result: "EQUAL", create_revision: hasCreateRevision }],
      success: [
        ...removes.map((prefix) => ({ request_delete_range: { key: base64(prefix), range_end: endOf(prefix) } })),
        ...puts.map(({ key, value, lease }) => ({ request_put: { key: base64(key), value: base64(value), ...(lease && { lease }) } })),
      ],
    });
    return succeeded === true;
  }

  async list(prefix: string): Promise<readonly EtcdEntry[]> {
    const entries: EtcdEntry[] = [];
    for (let from = base64(prefix), hasMore = true; hasMore; ) {
      const page = await this.#call("kv/range", { key: from, range_end: endOf(prefix), limit: PAGE_KEYS });
      const found = (page.kvs ?? []) as readonly WireEntry[];
      for (const { key, value = "", create_revision } of found)
        entries.push({ key: text(key), value: text(value), createRevision: Number(create_revision) });
      hasMore = page.more === true;
      from = Buffer.concat([Buffer.from(found.at(-1)?.key ?? "", "base64"), Buffer.of(0)]).toString("base64");
    }
    return entries;
  }

  /** Reads the stream of changes until the first of this key. */
  async watch(key: string, waitMs: number): Promise<void> {
    const ended = new AbortController();
    const timer = setTimeout(() => ended.abort(), waitMs);
    try {
      const response = await this.#send("watch", { create_request: { key: base64(key) } }, ended.signal);
      let received = "";
      for await (const chunk of response.body ?? []) {
        received += Buffer.from(chunk as Uint8Array).toString("latin1");
        if (received.includes('"events"')) return;
      }
    } catch (thrown) {
      if (ended.signal.aborted) return;
      this.#next++; // EtcdClient.C1
      throw failed(this.#urls, thrown);
    } finally {
      clearTimeout(timer);
      ended.abort();
    }
  }

  async #call(path: string, body: Json): Promise<Json> {
    for (let tries = 1; ; tries++) {
      try {
        const response = await this.#send(path, body, AbortSignal.timeout(CALL_MS));
        const answer = (await response.json()) as Json;
        if (response.ok && answer.error === undefined) return answer;
        throw new Error(typeof answer.message === "string" ? answer.message : `status ${response.status}`);
      } catch (thrown) {
        this.#next++; // EtcdClient.C1
        if (tries >= this.#urls.length) throw failed(this.#urls, thrown);
      }
    }
  }

  #send(path: string, body: Json, signal: AbortSignal): Promise<Response> {
    const url = this.#urls[this.#next % this.#urls.length];
    return fetch(`${url}/v3/${path}`, { method: "POST", body: JSON.stringify(body), signal });
  }
}

function failed(urls: readonly string[], cause: unknown): WeighbridgeError {
  const reason = (cause as { readonly cause?: unknown }).cause ?? cause;
  const message = `etcd at ${urls.join(", ")} does not answer: ${reasonOf(reason)}; start it there, or name the right members with --etcd`;
  return new WeighbridgeError("STATE_IO", message, { cause, retryable: true });
}

function base64(plain: string): string {
  return Buffer.from(plain).toString("base64");
}

function text(encoded: string): string {
  return Buffer.from(encoded, "base64").toString();
}

/** The first key behind all that begin so: a key of ours never ends with the highest byte. */
function endOf(prefix: string): string {
  const bytes = Buffer.from(prefix);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) + 1;
  return bytes.toString("base64");
}

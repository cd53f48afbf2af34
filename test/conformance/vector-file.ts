// vector-file — golden vectors as files: every frame as its bytes, and beside them what they mean, read by nothing but
// the tables of spec/protocol.md. Knows none of the code under test, so that it can contradict it.

const HEADER_BYTES = 64;
/** What stands before every payload of a bundle but the first. */
const ITEM_BYTES = 24;
/** Numbers of requests and updates are the lower 53 bits of their field. */
const U53_END = 2n ** 53n;
const APP_CUT = 0x8000;
const KIND_NAMES = ["", "HELLO", "REQUEST", "REPLY", "FAILURE", "NOTICE"];
const FUNCTION_NAMES: Readonly<Record<number, string>> = {
  1: "REGISTER",
  2: "HEARTBEAT",
  3: "BARRIER",
  4: "LEAVE",
  5: "STATUS",
  7: "UNITS",
  8: "ROSTER",
  9: "ABORT",
  10: "PLACEMENT",
  12: "GATHER",
  13: "RENDEZVOUS",
  14: "PREPARE",
  15: "RETIRE",
  16: "SIMPLE",
  32: "KV_PUSH",
  33: "KV_PULL",
  34: "KV_PUSH_PULL",
  48: "FUNCTION",
  49: "BUNDLE",
  64: "COLLECTIVE",
};
const LENS = 1;
/** A COLLECTIVE whose payload is bytes, and one whose payload is JSON. */
const EXCHANGE = 2;
const OVER = 4;

export type VectorHeader = {
  readonly magic: string;
  readonly version: number;
  readonly kind: string;
  readonly function: string;
  readonly flags: number;
  readonly payloadBytes: number;
  readonly priority: number;
  readonly request: number;
  /** Left out when the frame is not a run. */
  readonly more?: number;
  readonly stamp: number;
  readonly settled: number;
  readonly epoch: number;
  readonly app: number;
  readonly customer: number;
  readonly command: number;
  readonly arg0: number;
  readonly arg1: number;
  readonly arg2: number;
  readonly arg3: number;
};

export type VectorFrame = {
  readonly header: VectorHeader;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly hex: string;
};

export type VectorFile = {
  readonly name: string;
  readonly about: string;
  /** The vector that this one answers. */
  readonly answers?: string;
  /** Of a call of a function. */
  readonly signature?: string;
  /** How many lengths end an answer: it does not tell by itself. */
  readonly lensCount?: number;
  readonly frames: readonly VectorFrame[];
};

export function describeVector({ frames, ...rest }: Omit<VectorFile, "frames"> & { readonly frames: readonly Uint8Array[] }): VectorFile {
  return { ...rest, frames: frames.map((bytes) => describeFrame(bytes, rest.lensCount ?? 0)) };
}

function describeFrame(bytes: Uint8Array, lensCount: number): VectorFrame {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const u16 = (at: number): number => view.getUint16(at, true);
  const u32 = (at: number): number => view.getUint32(at, true);
  const u53 = (at: number): number => Number(view.getBigUint64(at, true) % U53_END);
  const above = (at: number): number => Number(view.getBigUint64(at, true) / U53_END);
  const more = above(16);
  const header: VectorHeader = {
    magic: String.fromCharCode(view.getUint8(0), view.getUint8(1)),
    version: view.getUint8(2),
    kind: KIND_NAMES[view.getUint8(3)] ?? "none",
    function: FUNCTION_NAMES[u16(4)] ?? String(u16(4)),
    flags: u16(6),
    payloadBytes: u32(8),
    priority: view.getInt32(12, true),
    request: u53(16),
    ...(more === 0 ? {} : { more }),
    stamp: u53(24),
    settled: u53(32),
    epoch: above(24) + above(32) * 2 ** 11,
    app: u16(40),
    customer: u16(42),
    command: view.getInt32(44, true),
    arg0: u32(48),
    arg1: u32(52),
    arg2: u32(56),
    arg3: u32(60),
  };
  const payloads = payloadsOf(bytes, header).map((body) => describePayload(header, body, lensCount));
  if (header.function === "BUNDLE") {
    const items = itemsOf(bytes, header).map(({ fields }, i) => ({ ...fields, ...payloads[i + 1] }));
    return { header, payload: { bundle: [payloads[0], ...items] }, hex: toHex(bytes) };
  }
  return { header, payload: more === 0 ? (payloads[0] ?? {}) : { run: payloads }, hex: toHex(bytes) };
}

type ItemFields = {
  readonly payloadBytes: number;
  readonly priority: number;
  readonly command: number;
  readonly arg0: number;
  readonly mark: number;
};
type VectorItem = { readonly at: number; readonly fields: ItemFields };

/** What stands before the payloads of a bundle, but the first; `at` is where the payload begins. */
function itemsOf(bytes: Uint8Array, { arg1: itemCount, arg2: firstBytes }: VectorHeader): VectorItem[] {
  const view = viewOf(bytes);
  const items: VectorItem[] = [];
  let next = HEADER_BYTES + Math.ceil(firstBytes / 8) * 8;
  for (let i = 0; i < itemCount; i++) {
    const payloadBytes = view.getUint32(next, true);
    const fields = {
      payloadBytes,
      priority: view.getInt32(next + 4, true),
      command: view.getInt32(next + 8, true),
      arg0: view.getUint32(next + 12, true),
      mark: view.getInt32(next + 16, true),
    };
    items.push({ at: next + ITEM_BYTES, fields });
    next += ITEM_BYTES + Math.ceil(payloadBytes / 8) * 8;
  }
  return items;
}

/** The payload, or those of the frames of a run or a bundle. */
export function payloadsOf(bytes: Uint8Array, header: VectorHeader): Uint8Array[] {
  const { payloadBytes, more = 0 } = header;
  if (header.function === "BUNDLE") {
    const first = { at: HEADER_BYTES, fields: { payloadBytes: header.arg2 } };
    return [first, ...itemsOf(bytes, header)].map(({ at, fields }) => bytes.subarray(at, at + fields.payloadBytes));
  }
  const stride = Math.ceil(payloadBytes / 8) * 8;
  return Array.from({ length: 1 + more }, (_, i) => bytes.subarray(HEADER_BYTES + i * stride, HEADER_BYTES + i * stride + payloadBytes));
}

function describePayload(header: VectorHeader, body: Uint8Array, lensCount: number): Record<string, unknown> {
  if (body.length === 0) return {};
  if (header.kind === "HELLO" || header.kind === "FAILURE") return { json: JSON.parse(new TextDecoder().decode(body)) };
  if (header.function === "SIMPLE") return { text: new TextDecoder().decode(body) };
  if (header.function === "FUNCTION" || header.function === "BUNDLE")
    return {
      words: Array.from({ length: body.length / 8 }, (_, i) =>
        viewOf(body)
          .getBigUint64(i * 8, true)
          .toString(16),
      ),
      ...(body.length % 8 === 0 ? {} : { rest: toHex(body.subarray(body.length - (body.length % 8))) }),
    };
  if (header.function === "COLLECTIVE" && header.flags === EXCHANGE)
    return {
      u32: Array.from({ length: Math.floor(body.length / 4) }, (_, i) => viewOf(body).getUint32(i * 4, true)),
      ...(body.length % 4 === 0 ? {} : { rest: toHex(body.subarray(body.length - (body.length % 4))) }),
    };
  if (header.function === "COLLECTIVE" && header.flags !== OVER)
    return { floats: Array.from({ length: body.length / 4 }, (_, i) => viewOf(body).getFloat32(i * 4, true)) };
  if (!header.function.startsWith("KV_")) return { json: JSON.parse(new TextDecoder().decode(body)) };
  return header.kind === "REQUEST" ? describeKvRequest(header, body) : describeKvAnswer(header, body, lensCount);
}

function describeKvRequest({ arg0: keyCount, flags }: VectorHeader, body: Uint8Array): Record<string, unknown> {
  const lensBytes = (flags & LENS) === 0 ? 0 : keyCount * 4;
  const keys = Array.from({ length: keyCount }, (_, i) =>
    viewOf(body)
      .getBigUint64(i * 8, true)
      .toString(),
  );
  const values = valuesOf(body.subarray(keyCount * 8, body.length - lensBytes), (flags & ~APP_CUT) >> 8);
  return lensBytes === 0 ? { keys, values } : { keys, values, lens: intsOf(body.subarray(body.length - lensBytes)) };
}

/** The lengths are the last bytes of the whole answer, and may have a frame of their own. */
function describeKvAnswer({ arg0: totalBytes, arg2: offset }: VectorHeader, body: Uint8Array, lensCount: number): Record<string, unknown> {
  const valueBytes = Math.max(0, Math.min(body.length, totalBytes - lensCount * 4 - offset));
  const values = valuesOf(body.subarray(0, valueBytes), 0);
  return valueBytes === body.length ? { values } : { values, lens: intsOf(body.subarray(valueBytes)) };
}

function valuesOf(bytes: Uint8Array, dtype: number): number[] {
  const size = dtype === 1 ? 8 : 4;
  const view = viewOf(bytes);
  return Array.from({ length: bytes.length / size }, (_, i) => (dtype === 1 ? view.getFloat64(i * 8, true) : view.getFloat32(i * 4, true)));
}

function intsOf(bytes: Uint8Array): number[] {
  return Array.from({ length: bytes.length / 4 }, (_, i) => viewOf(bytes).getInt32(i * 4, true));
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
}

// raw-meta — recognises the first part of a message of bytedance's fork of ps-lite (BytePS), a C struct, only to refuse
// it with a reason.
//
//   RawMeta   112 bytes: body_size i32 @4   node_size i32 @12   data_type_size i32 @44
//             then the body, types of i32, and 552 bytes per node

const RAW_META_BYTES = 112;
const NODE_BYTES = 552;
const TYPE_BYTES = 4;

/** True if the lengths that a RawMeta would hold add up to exactly these bytes. */
export function isRawMeta(bytes: Uint8Array, at: number, byteCount: number): boolean {
  if (byteCount < RAW_META_BYTES) return false;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, byteCount);
  const bodyBytes = view.getInt32(4, true);
  const nodeCount = view.getInt32(12, true);
  const typeCount = view.getInt32(44, true);
  if (bodyBytes < 0 || nodeCount < 0 || typeCount < 0) return false;
  return RAW_META_BYTES + bodyBytes + typeCount * TYPE_BYTES + nodeCount * NODE_BYTES === byteCount;
}

/** For our log: a node of the fork would not understand an answer. */
export const RAW_META_REFUSAL: string =
  "this is a node of bytedance's fork of ps-lite (BytePS), whose messages are C structs; Weighbridge speaks the protocol of dmlc/ps-lite: " +
  "build the program against dmlc/ps-lite";

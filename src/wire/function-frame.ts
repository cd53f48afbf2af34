// function-frame — FUNCTION: a call of a PS function by name, and its answer. What its payload consists of, function-schema.ts says.
//
//   request   command: hash of the name │ arg0 hash of the signature │ arg1 number of the call at its sender │ arg2 first byte of this frame
//             arg3 bytes of the whole request
//   answer    the response, in as many frames as it takes; args: u64 totalBytes, u64 offsetBytes
//
// A request of more than PAYLOAD_BYTES_MAX is cut into frames of a block, in order, all but the last with PART; those are acknowledged.

export const FunctionFlag = {
  /** More frames of this request follow. */
  PART: 1,
} as const;

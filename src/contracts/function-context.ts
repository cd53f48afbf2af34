// function-context — what the handler of a user's own function knows beside its request: who asks, and the parameters of the server it runs on.

/** A row of a table. */
export type TableRow = { readonly key: bigint; readonly values: Float32Array };

/** A block of a tensor: the position of its first value in the tensor, and its values. */
export type TensorBlock = { readonly first: number; readonly values: Float32Array };

export type FunctionContext = {
  /** The rank of the worker that asks. */
  readonly worker: number;
  /** The rows of a table that this server holds, in no order. Values are the caller's to keep. Throws UNKNOWN_PARAMETER, UNSUPPORTED. */
  rowsOf(table: string): Iterable<TableRow>;
  /** The blocks of a tensor that are this server's, touched or not, by their first element. As `rowsOf`. Throws ARENA_FULL as well. */
  blocksOf(tensor: string): Iterable<TensorBlock>;
  /** An object of the user's own, made at its first use and kept as long as this server lives. */
  own<T extends object>(name: string, create: () => T): T;
};

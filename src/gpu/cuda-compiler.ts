// cuda-compiler — NVRTC, which compiles CUDA C++ at run time for the card at hand. It needs no card itself.

import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { type NativeFunction, type NativeLibraries, type NativeValue, noDevice } from "./cuda-driver.ts";

const DECLARATIONS = {
  nvrtcCreateProgram:
    "int nvrtcCreateProgram(void *program, const char *source, const char *name, int headerCount, void *headers, void *names)",
  nvrtcDestroyProgram: "int nvrtcDestroyProgram(void *program)",
  nvrtcCompileProgram: "int nvrtcCompileProgram(uint64_t program, int optionCount, const char **options)",
  nvrtcGetCUBINSize: "int nvrtcGetCUBINSize(uint64_t program, void *size)",
  nvrtcGetCUBIN: "int nvrtcGetCUBIN(uint64_t program, void *image)",
  nvrtcGetProgramLogSize: "int nvrtcGetProgramLogSize(uint64_t program, void *size)",
  nvrtcGetProgramLog: "int nvrtcGetProgramLog(uint64_t program, void *log)",
} as const;

type CompilerFunctions = Readonly<Record<keyof typeof DECLARATIONS, NativeFunction>>;

const LIBRARY_NAMES: readonly string[] = [
  "libnvrtc.so.13",
  "libnvrtc.so.12",
  "libnvrtc.so",
  "/usr/local/cuda/lib64/libnvrtc.so",
  "nvrtc64_130_0.dll",
  "nvrtc64_120_0.dll",
];
/** NVRTC's own result code for a source that does not compile. */
const COMPILATION_FAILED = 6;

export type CompileOptions = {
  /** What the log calls the source. */
  readonly name: string;
  /** Of the card: "sm_90". */
  readonly architecture: string;
  readonly options?: readonly string[];
};

/** Throws NO_DEVICE if no NVRTC is installed. */
export function loadCudaCompiler(native: NativeLibraries): CudaCompiler {
  const reasons: string[] = [];
  for (const name of LIBRARY_NAMES) {
    try {
      const library = native.load(name);
      const functions = Object.entries(DECLARATIONS).map(([key, declaration]) => [key, library.func(declaration)]);
      return new CudaCompiler(Object.fromEntries(functions) as CompilerFunctions);
    } catch (thrown) {
      reasons.push(reasonOf(thrown));
    }
  }
  throw noDevice(`NVRTC, the run-time compiler of the CUDA toolkit, does not load (${reasons[0]}); is its folder in LD_LIBRARY_PATH?`);
}

export class CudaCompiler {
  readonly #functions: CompilerFunctions;

  constructor(functions: CompilerFunctions) {
    this.#functions = functions;
  }

  /** Machine code for the architecture. Throws KERNEL_REJECTED with the compiler's log. */
  compile(source: string, { name, architecture, options = [] }: CompileOptions): Uint8Array {
    const handle = new BigUint64Array(8);
    this.#check(this.#functions.nvrtcCreateProgram(handle, source, name, 0, null, null), "nvrtcCreateProgram");
    const program = Number(handle[0]);
    try {
      const all = [`--gpu-architecture=${architecture}`, ...options];
      const code = this.#functions.nvrtcCompileProgram(program, all.length, all);
      if (code !== 0) throw this.#rejected(program, name, code);
      const image = new Uint8Array(this.#size(this.#functions.nvrtcGetCUBINSize, program));
      this.#check(this.#functions.nvrtcGetCUBIN(program, image), "nvrtcGetCUBIN");
      return image;
    } finally {
      this.#functions.nvrtcDestroyProgram(handle);
    }
  }

  #rejected(program: number, name: string, code: number): WeighbridgeError {
    const log = new Uint8Array(this.#size(this.#functions.nvrtcGetProgramLogSize, program));
    this.#check(this.#functions.nvrtcGetProgramLog(program, log), "nvrtcGetProgramLog");
    const text = new TextDecoder().decode(log).replaceAll("\0", "").trim();
    const why = code === COMPILATION_FAILED ? "does not compile" : `was refused by the compiler (${code})`;
    return new WeighbridgeError("KERNEL_REJECTED", `the CUDA source ${JSON.stringify(name)} ${why}:\n${text}`, { detail: { log: text } });
  }

  #size(call: NativeFunction, program: NativeValue): number {
    const size = new BigUint64Array(8);
    this.#check(call(program, size), "NVRTC");
    return Number(size[0]);
  }

  #check(code: number, what: string): void {
    if (code !== 0) throw new WeighbridgeError("DEVICE_FAILED", `${what}: NVRTC failed with code ${code}`);
  }
}

// The kernels of the net, in CUDA C++: one thread computes one number of the result. They are compiled when the net
// starts.

export const SOURCE = `
extern "C" __global__ void readImages(float *out, const unsigned char *pixels, int first, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = pixels[first + i] / 255.0f;
}

// out[r][j] = bias[j] + sum of in[r][i] * weights[i][j], through a sigmoid if asked.
extern "C" __global__ void forward(float *out, const float *in, const float *weights, const float *bias, int rows, int inputs, int outputs,
                                   int isSigmoid) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= rows * outputs) return;
  int r = at / outputs, j = at % outputs;
  float sum = bias[j];
  for (int i = 0; i < inputs; i++) sum += in[r * inputs + i] * weights[i * outputs + j];
  out[at] = isSigmoid ? 1.0f / (1.0f + expf(-sum)) : sum;
}

// The gradient of softmax and cross entropy, in place: (probability - 1 for the label) * scale.
extern "C" __global__ void softmaxGradient(float *values, const unsigned char *labels, int first, int rows, int outputs, float scale) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float *row = values + r * outputs, most = row[0], sum = 0;
  for (int j = 1; j < outputs; j++) most = fmaxf(most, row[j]);
  for (int j = 0; j < outputs; j++) sum += row[j] = expf(row[j] - most);
  for (int j = 0; j < outputs; j++) row[j] = (row[j] / sum - (labels[first + r] == j ? 1.0f : 0.0f)) * scale;
}

extern "C" __global__ void weightGradient(float *out, const float *in, const float *delta, int rows, int inputs, int outputs) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= inputs * outputs) return;
  int i = at / outputs, j = at % outputs;
  float sum = 0;
  for (int r = 0; r < rows; r++) sum += in[r * inputs + i] * delta[r * outputs + j];
  out[at] = sum;
}

extern "C" __global__ void biasGradient(float *out, const float *delta, int rows, int outputs) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= outputs) return;
  float sum = 0;
  for (int r = 0; r < rows; r++) sum += delta[r * outputs + j];
  out[j] = sum;
}

// Back through the weights and the sigmoid whose results are in hidden.
extern "C" __global__ void backward(float *out, const float *delta, const float *weights, const float *hidden, int rows, int inputs, int outputs) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= rows * inputs) return;
  int r = at / inputs, i = at % inputs;
  float sum = 0;
  for (int j = 0; j < outputs; j++) sum += delta[r * outputs + j] * weights[i * outputs + j];
  out[at] = sum * hidden[at] * (1.0f - hidden[at]);
}

extern "C" __global__ void update(float *weights, const float *gradient, float rate, float decay, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) weights[i] -= rate * (gradient[i] + decay * weights[i]);
}

extern "C" __global__ void countErrors(unsigned int *errors, const float *values, const unsigned char *labels, int rows, int outputs) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  int best = 0;
  for (int j = 1; j < outputs; j++)
    if (values[r * outputs + j] > values[r * outputs + best]) best = j;
  if (best != labels[r]) atomicAdd(errors, 1u);
}
`;

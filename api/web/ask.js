// Questions to the service that this page came from.

// Problem is an answer that is no answer: application/problem+json, or what stands in for it where the service is out of reach.
export class Problem extends Error {
  constructor(document) {
    super(document.detail ?? document.title ?? "no answer");
    this.status = document.status ?? 0;
    this.code = document.code ?? "";
    this.fields = document.errors ?? [];
  }
}

async function answer(response) {
  if (response.ok) return response.json();
  const text = await response.text();
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    document = { status: response.status, detail: `The service answered ${response.status} ${response.statusText}.` };
  }
  throw new Problem(document);
}

async function send(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError" || error.name === "TimeoutError") throw error;
    throw new Problem({ detail: "The service cannot be reached." });
  }
}

export async function get(path, signal) {
  return answer(await send(path, { signal }));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return answer(await send(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

// batch asks about many jobs in one request and hands each answer over as it arrives: take(index, result or problem document).
export async function batch(path, jobs, signal, take) {
  const body = jobs.map((job) => JSON.stringify(job)).join("\n");
  const response = await send(path, { method: "POST", headers: { "Content-Type": "application/x-ndjson" }, body, signal });
  if (!response.ok) return answer(response);
  const lines = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let index = 0; ; ) {
    const { done, value } = await lines.read();
    if (done) return undefined;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) take(index++, JSON.parse(part));
  }
}

// The official `openai` for Node and the AI SDK: `node <script> <plan>`, the plan and the results as in observing.py.

import { appendFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamText } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const plan = JSON.parse(process.argv[2]);
const calls = [];

async function observed(url, options) {
  const reply = await fetch(url, options);
  calls.push({
    path: new URL(reply.url).pathname,
    status: reply.status,
    "x-cache": reply.headers.get("x-cache"),
    "x-cache-reason": reply.headers.get("x-cache-reason"),
  });
  return reply;
}

function assert(condition, message) {
  if (!condition) throw new Error(message);
}

const brief = { temperature: 0, max_tokens: 40, stop: [". "] };

function asking(target, text, fields = {}) {
  return { model: target.model, messages: [{ role: "user", content: text }], ...brief, ...fields };
}

function openai(target) {
  return new OpenAI({ baseURL: target.base_url, apiKey: target.key, maxRetries: 0, fetch: observed });
}

function ai(target, prompt) {
  const provider = createOpenAICompatible({
    name: "echogate",
    baseURL: target.base_url,
    apiKey: target.key,
    fetch: observed,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
  const limits = { temperature: 0, maxOutputTokens: 60, stopSequences: [". "], maxRetries: 0 };
  return { model: provider(target.model), prompt, ...limits };
}

const openaiNode = {
  async chat(target) {
    const reply = await openai(target).chat.completions.create(asking(target, "What is a kettle for?"));
    assert(reply.choices[0].message.content, "nothing was said");
    return [reply.choices[0].message.content, reply.usage.total_tokens];
  },
  async chat_stream(target) {
    const options = { stream: true, stream_options: { include_usage: true } };
    const stream = await openai(target).chat.completions.create(asking(target, "What is a lamp for?", options));
    let said = "";
    let usage = null;
    for await (const chunk of stream) {
      said += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert(said && usage, "nothing was said, or no usage came");
    return [said, usage.total_tokens];
  },
  async chat_stream_helper(target) {
    const stream = openai(target).chat.completions.stream(asking(target, "What is a chair for?"));
    return (await stream.finalChatCompletion()).choices[0].message.content;
  },
  async completion(target) {
    const options = { model: target.model, prompt: "The sky is blue because", ...brief };
    return (await openai(target).completions.create(options)).choices[0].text;
  },
  async response_stream(target) {
    const options = { model: target.model, input: "Say no.", temperature: 0, max_output_tokens: 300, store: false };
    const stream = await openai(target).responses.create({ ...options, stream: true });
    let last = null;
    for await (const event of stream) last = event;
    assert(last.type === "response.completed", last.type);
    return last.response.output[0].content[0].text;
  },
  async models(target) {
    const found = [];
    for await (const model of openai(target).models.list()) found.push(model.id);
    assert(found.includes(target.model), found.join());
    return target.model;
  },
};

const weather = {
  description: "The weather in a city",
  inputSchema: z.object({ city: z.string() }),
};

const aiSdk = {
  async generateText(target) {
    const { text, usage, finishReason } = await generateText(ai(target, "What is a kettle for, by the AI SDK?"));
    assert(text && finishReason === "stop", finishReason);
    return [text, usage.totalTokens];
  },
  async streamText(target) {
    const stream = streamText(ai(target, "What is a lamp for, by the AI SDK?"));
    let said = "";
    for await (const part of stream.textStream) said += part;
    assert(said, "nothing was said");
    return [said, (await stream.usage).totalTokens];
  },
  async generateObject(target) {
    const { stopSequences, ...options } = ai(target, "The colour of the sky, by the AI SDK?");
    const schema = z.object({ colour: z.enum(["red", "blue"]) });
    return (await generateObject({ ...options, schema })).object;
  },
  async tools(target) {
    const options = { ...ai(target, "What is the weather in Paris?"), tools: { weather }, toolChoice: "required" };
    const { toolCalls } = await generateText(options);
    assert(toolCalls.length === 1, "no tool was called");
    return toolCalls.map((call) => [call.toolName, call.input]);
  },
  async streamed_tools(target) {
    const options = { ...ai(target, "What is the weather in Rome?"), tools: { weather }, toolChoice: "required" };
    const found = await streamText({ ...options, onError() {} }).toolCalls;
    assert(found.length === 1, "no tool was called");
    return found.map((call) => [call.toolName, call.input]);
  },
};

// What fails at the model server itself is not tried any further.
const features = plan.client === "openai-node" ? openaiNode : aiSdk;
for (const target of plan.targets) {
  for (const [feature, ask] of Object.entries(features)) {
    const line = { phase: target.phase, feature, outcome: "passed", reason: "", said: null };
    try {
      line.said = await ask({ ...target, model: plan.model });
    } catch (error) {
      line.outcome = "failed";
      line.reason = `${error.name}: ${error.message}`.slice(0, 500);
      if (target.phase === "direct") delete features[feature];
    }
    appendFileSync(plan.results, JSON.stringify({ ...line, calls: calls.splice(0) }) + "\n");
  }
}

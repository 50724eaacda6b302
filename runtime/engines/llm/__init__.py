"""An agent that is a language model behind any endpoint that speaks OpenAI's chat completions, streamed."""

from __future__ import annotations

from runtime.engines.llm.agent import LlmAgent

__all__ = ["LlmAgent"]

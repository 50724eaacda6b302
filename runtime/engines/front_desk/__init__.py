"""The default agent: the front desk of a small restaurant. Rules and templates, not a language model.

It needs no key, no download and no measurable time, so it shows the runtime, not itself. It answers questions about opening
hours, books tables and takes everything else down as a message, and says in every reply, word for word, what it heard.
"""

from runtime.engines.front_desk.agent import FrontDesk

__all__ = ["FrontDesk"]

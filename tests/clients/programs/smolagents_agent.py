"""smolagents' tool-calling agent as an external agent: MCP through mcpadapt, the model through its OpenAI client."""

import os

from smolagents import OpenAIModel, ToolCallingAgent, ToolCollection

PARAMETERS = {"url": os.environ["ROLLOUTHUB_AGENT_URL"], "transport": "streamable-http"}


def main() -> None:
    """Play one episode; its last answer comes by a tool of its own, `final_answer`."""
    model = OpenAIModel(
        os.environ["ROLLOUTHUB_MODEL"], api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"]
    )
    with ToolCollection.from_mcp(PARAMETERS, trust_remote_code=True, structured_output=False) as collection:
        agent = ToolCallingAgent(tools=[*collection.tools], model=model, verbosity_level=0)
        agent.run(os.environ["ROLLOUTHUB_PROMPT"], max_steps=20)


main()

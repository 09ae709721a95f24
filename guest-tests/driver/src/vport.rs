//! The port, from the driver's side: what the RDMA driver asks before it registers a device.

use layouts::{
    HcaVportContext, NodeDesc, Opcode, PmtuReg, PtysReg, PvlcReg, QueryHcaVportContextIn,
    QueryHcaVportContextOut, QueryHcaVportGidIn, QueryHcaVportGidOut, QueryHcaVportPkeyIn,
    QueryHcaVportPkeyOut, RegisterId,
};

use crate::driver::Driver;
use crate::port::{Port, Result, broken};

/// PTYS: the InfiniBand part.
const PROTO_INFINIBAND: u8 = 1;
/// IB port state ACTIVE.
const ACTIVE: u8 = 4;
/// What pkey_table_size 0 means.
const PKEYS: u16 = 128;
/// What gid_table_size 0 means.
const GIDS: u16 = 8;

/// What the port is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// State and physical state, as PortInfo codes.
    pub state: (u8, u8),
    /// Local identifier, and that of the subnet manager.
    pub lids: (u16, u16),
    /// GUIDs of node, port and system image.
    pub guids: (u64, u64, u64),
    /// Payload of the largest packet.
    pub mtu: u16,
    /// Width and speed codes.
    pub rate: (u16, u16),
    /// GID table.
    pub gids: Vec<[u8; 16]>,
    /// P_Key table.
    pub pkeys: Vec<u16>,
}

impl<P: Port> Driver<P> {
    /// QUERY_HCA_VPORT_CONTEXT: the context.
    pub fn query_vport_context(&mut self) -> Result<Vec<u8>> {
        let input = [0; QueryHcaVportContextIn::SIZE];
        let outlen = QueryHcaVportContextOut::SIZE;
        let mut reply = self.exec(Opcode::QUERY_HCA_VPORT_CONTEXT, 0, input, outlen)?;
        Ok(reply.split_off(outlen - HcaVportContext::SIZE))
    }

    /// QUERY_HCA_VPORT_GID: one entry.
    pub fn query_gid(&mut self, index: u16) -> Result<[u8; 16]> {
        let mut input = [0; QueryHcaVportGidIn::SIZE];
        QueryHcaVportGidIn(&mut input[..]).set_gid_index(index);
        let outlen = QueryHcaVportGidOut::SIZE + 16;
        let reply = self.exec(Opcode::QUERY_HCA_VPORT_GID, 0, input, outlen)?;
        match QueryHcaVportGidOut(&reply[..]).gid().next() {
            Some(gid) => Ok(gid),
            None => broken("no GID in the reply"),
        }
    }

    /// QUERY_HCA_VPORT_PKEY: one entry.
    pub fn query_pkey(&mut self, index: u16) -> Result<u16> {
        let mut input = [0; QueryHcaVportPkeyIn::SIZE];
        QueryHcaVportPkeyIn(&mut input[..]).set_pkey_index(index);
        let outlen = QueryHcaVportPkeyOut::SIZE + 4;
        let reply = self.exec(Opcode::QUERY_HCA_VPORT_PKEY, 0, input, outlen)?;
        match QueryHcaVportPkeyOut(&reply[..]).pkey().next() {
            Some(word) => Ok(word as u16),
            None => broken("no P_Key in the reply"),
        }
    }

    /// NODE_DESC.
    pub fn node_description(&mut self) -> Result<String> {
        let data = self.read_register(RegisterId::NODE_DESC, &[0; NodeDesc::SIZE])?;
        let text = data.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Everything that the RDMA driver asks of a port, in its order and as often as it does.
    pub fn query_port(&mut self) -> Result<PortInfo> {
        let context = self.query_vport_context()?;
        let context = HcaVportContext(&context[..]);
        if context.vport_state() != ACTIVE {
            return broken(format!("the port is in state {}", context.vport_state()));
        }
        let mut data = [0; PtysReg::SIZE];
        let mut ptys = PtysReg(&mut data[..]);
        ptys.set_local_port(1);
        ptys.set_proto_mask(PROTO_INFINIBAND);
        let data = self.read_register(RegisterId::PTYS, &data)?;
        let ptys = PtysReg(&data[..]);
        let rate = (ptys.ib_link_width_oper(), ptys.ib_proto_oper());
        let mut mtus = [0; 2];
        for mtu in &mut mtus {
            let mut data = [0; PmtuReg::SIZE];
            PmtuReg(&mut data[..]).set_local_port(1);
            let data = self.read_register(RegisterId::PMTU, &data)?;
            *mtu = PmtuReg(&data[..]).oper_mtu();
        }
        let [mtu, _] = mtus;
        if ![256, 512, 1024, 2048, 4096].contains(&mtu) {
            return broken(format!("an MTU of {mtu}"));
        }
        let mut data = [0; PvlcReg::SIZE];
        PvlcReg(&mut data[..]).set_local_port(1);
        let data = self.read_register(RegisterId::PVLC, &data)?;
        let lanes = PvlcReg(&data[..]).vl_hw_cap();
        if ![1, 2, 4, 8, 15].contains(&lanes) {
            return broken(format!("a VL capability of {lanes}"));
        }
        Ok(PortInfo {
            state: (context.vport_state(), context.port_physical_state()),
            lids: (context.lid(), context.sm_lid()),
            guids: (context.node_guid(), context.port_guid(), context.system_image_guid()),
            mtu,
            rate,
            gids: (0..GIDS).map(|index| self.query_gid(index)).collect::<Result<_>>()?,
            pkeys: (0..PKEYS).map(|index| self.query_pkey(index)).collect::<Result<_>>()?,
        })
    }
}

//! Queue pairs: their context and the commands that make, show and end them.

use crate::layout;

layout! {
    /// The way to another port: one of the two paths in a queue pair context.
    Ads = "ads", 0x2c {
        fl: bool = 0x00[31:31],
        free_ar: bool = 0x00[30:30],
        pkey_index: u16 = 0x00[15:0],
        plane_index: u8 = 0x04[31:24],
        grh: bool = 0x04[23:23],
        mlid: u8 = 0x04[22:16],
        rlid: u16 = 0x04[15:0],
        ack_timeout: u8 = 0x08[31:27],
        src_addr_index: u8 = 0x08[23:16],
        stat_rate: u8 = 0x08[11:8],
        hop_limit: u8 = 0x08[7:0],
        tclass: u8 = 0x0c[27:20],
        flow_label: u32 = 0x0c[19:0],
        f_dscp: bool = 0x20[27:27],
        f_ecn: bool = 0x20[26:26],
        f_eth_prio: bool = 0x20[24:24],
        ecn: u8 = 0x20[23:22],
        dscp: u8 = 0x20[21:16],
        udp_sport: u16 = 0x20[15:0],
        dei_cfi: bool = 0x24[31:31],
        eth_prio: u8 = 0x24[30:28],
        sl: u8 = 0x24[27:24],
        vhca_port_num: u8 = 0x24[23:16],
        rmac_47_32: u16 = 0x24[15:0],
        rmac_31_0: u32 = 0x28[31:0],
    }
    arrays {
        rgid_rip: [u8; 16] = 0x10,
    }
}

layout! {
    /// Queue pair context.
    Qpc = "qpc", 0xe8 {
        state: u8 = 0x00[31:28],
        lag_tx_port_affinity: u8 = 0x00[27:24],
        st: u8 = 0x00[23:16],
        isolate_vl_tc: bool = 0x00[13:13],
        pm_state: u8 = 0x00[12:11],
        req_e2e_credit_mode: u8 = 0x00[9:8],
        offload_type: u8 = 0x00[7:4],
        end_padding_mode: u8 = 0x00[3:2],
        wq_signature: bool = 0x04[31:31],
        block_lb_mc: bool = 0x04[30:30],
        atomic_like_write_en: bool = 0x04[29:29],
        latency_sensitive: bool = 0x04[28:28],
        drain_sigerr: bool = 0x04[26:26],
        dp_ordering_force: bool = 0x04[24:24],
        pd: u32 = 0x04[23:0],
        mtu: u8 = 0x08[31:29],
        log_msg_max: u8 = 0x08[28:24],
        log_rq_size: u8 = 0x08[22:19],
        log_rq_stride: u8 = 0x08[18:16],
        no_sq: bool = 0x08[15:15],
        log_sq_size: u8 = 0x08[14:11],
        retry_mode: u8 = 0x08[9:8],
        ts_format: u8 = 0x08[7:6],
        rlky: bool = 0x08[4:4],
        ulp_stateless_offload_mode: u8 = 0x08[3:0],
        counter_set_id: u8 = 0x0c[31:24],
        uar_page: u32 = 0x0c[23:0],
        user_index: u32 = 0x10[23:0],
        log_page_size: u8 = 0x14[28:24],
        remote_qpn: u32 = 0x14[23:0],
        log_ack_req_freq: u8 = 0x70[31:28],
        log_sra_max: u8 = 0x70[23:21],
        retry_count: u8 = 0x70[18:16],
        rnr_retry: u8 = 0x70[15:13],
        fre: bool = 0x70[11:11],
        cur_rnr_retry: u8 = 0x70[10:8],
        cur_retry_count: u8 = 0x70[7:5],
        packet_pacing_rate_limit_index: u16 = 0x74[15:0],
        next_send_psn: u32 = 0x78[23:0],
        log_num_dci_stream_channels: u8 = 0x7c[28:24],
        cqn_snd: u32 = 0x7c[23:0],
        log_num_dci_errored_streams: u8 = 0x80[28:24],
        deth_sqpn: u32 = 0x80[23:0],
        last_acked_psn: u32 = 0x88[23:0],
        ssn: u32 = 0x8c[23:0],
        log_rra_max: u8 = 0x90[23:21],
        atomic_mode: u8 = 0x90[19:16],
        rre: bool = 0x90[15:15],
        rwe: bool = 0x90[14:14],
        rae: bool = 0x90[13:13],
        page_offset: u8 = 0x90[11:6],
        dp_ordering_1: bool = 0x90[3:3],
        cd_slave_receive: bool = 0x90[2:2],
        cd_slave_send: bool = 0x90[1:1],
        cd_master: bool = 0x90[0:0],
        min_rnr_nak: u8 = 0x94[28:24],
        next_rcv_psn: u32 = 0x94[23:0],
        xrcd: u32 = 0x98[23:0],
        cqn_rcv: u32 = 0x9c[23:0],
        dbr_addr: u64 = 0xa0[63:0],
        q_key: u32 = 0xa8[31:0],
        rq_type: u8 = 0xac[26:24],
        srqn_rmpn_xrqn: u32 = 0xac[23:0],
        rmsn: u32 = 0xb0[23:0],
        hw_sq_wqebb_counter: u16 = 0xb4[31:16],
        sw_sq_wqebb_counter: u16 = 0xb4[15:0],
        hw_rq_counter: u32 = 0xb8[31:0],
        sw_rq_counter: u32 = 0xbc[31:0],
        cgs: bool = 0xc4[16:16],
        cs_req: u8 = 0xc4[15:8],
        cs_res: u8 = 0xc4[7:0],
        dc_access_key: u64 = 0xc8[63:0],
        dbr_umem_valid: bool = 0xd0[28:28],
        /// From rdma-core's tests (`SwQpc`).
        dbr_umem_id: u32 = 0xe4[31:0],
    }
    parts {
        primary_address_path: Ads = 0x18,
        secondary_address_path: Ads = 0x44,
    }
}

layout! {
    /// Input of CREATE_QP.
    CreateQpIn = "create_qp_in", 0x110 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpc_ext: bool = 0x08[31:31],
        input_qpn: u32 = 0x08[23:0],
        opt_param_mask: u32 = 0x10[31:0],
        ece: u32 = 0x14[31:0],
        wq_umem_offset: u64 = 0x100[63:0],
        wq_umem_id: u32 = 0x108[31:0],
        wq_umem_valid: bool = 0x10c[31:31],
    }
    parts {
        qpc: Qpc = 0x18,
    }
    tail { pas: u64 = 0x110 }
}

layout! {
    /// Output of CREATE_QP.
    CreateQpOut = "create_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        qpn: u32 = 0x08[23:0],
        ece: u32 = 0x0c[31:0],
    }
}

layout! {
    /// Input of DESTROY_QP.
    DestroyQpIn = "destroy_qp_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        uid: u16 = 0x00[15:0],
        op_mod: u16 = 0x04[15:0],
        qpn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of DESTROY_QP.
    DestroyQpOut = "destroy_qp_out", 0x10 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
    }
}

layout! {
    /// Input of QUERY_QP.
    QueryQpIn = "query_qp_in", 0x10 {
        opcode: u16 = 0x00[31:16],
        op_mod: u16 = 0x04[15:0],
        qpc_ext: bool = 0x08[31:31],
        qpn: u32 = 0x08[23:0],
    }
}

layout! {
    /// Output of QUERY_QP, as the oldest supported kernel asks for it. Newer ones have room for an
    /// extension of the context where the page list begins, and get it if they ask with `qpc_ext`.
    QueryQpOut = "query_qp_out", 0x110 {
        status: u8 = 0x00[31:24],
        syndrome: u32 = 0x04[31:0],
        opt_param_mask: u32 = 0x10[31:0],
        ece: u32 = 0x14[31:0],
    }
    parts {
        qpc: Qpc = 0x18,
    }
    tail { pas: u64 = 0x110 }
}
